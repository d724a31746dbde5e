"""Sends files: style sheets, scripts and the pages of a report. Nothing follows a link or leaves its directory."""

from __future__ import annotations

import asyncio
import mimetypes
import os

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from mngr.base.paths import open_plain_file
from mngr.web.static_files import STATIC_DIR

_LIVE_STATIC_DIR = os.path.join(os.path.dirname(__file__), "static")
_MAX_BYTES = 64 << 20
_NAVIGATION = (
    '<p class="way"><span><a href="/">agents</a> · <a href="/runs">runs</a> · <a href="/tests/">tests</a></span></p>'
)


async def send_static(request: Request, name: str | None = None) -> Response:
    """Return a style sheet or a script, by default the one that the path names."""
    name = request.path_params["name"] if name is None else name
    for directory in (_LIVE_STATIC_DIR, STATIC_DIR):
        if name in os.listdir(directory):
            return Response(await asyncio.to_thread(read_file, directory, name), media_type=guess_type(name))
    raise HTTPException(404, "page not found")


def read_file(directory: str, path: str) -> bytes:
    """Return a file below a directory. Raise HTTPException for a path that leads out of it, a link or no file."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise HTTPException(404, "page not found")
    descriptors = []
    try:
        descriptors.append(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW))
        for part in parts[:-1]:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            descriptors.append(os.open(part, flags, dir_fd=descriptors[-1]))
        with open_plain_file(parts[-1], descriptors[-1]) as file:
            return file.read(_MAX_BYTES)
    except OSError:
        raise HTTPException(404, "page not found") from None
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def guess_type(name: str) -> str:
    """Return the media type of a file."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def add_navigation(html: str) -> str:
    """Return a page that mngr also writes to files, with links to the other pages of the server."""
    return html.replace("<main>", f"<main>{_NAVIGATION}", 1)
