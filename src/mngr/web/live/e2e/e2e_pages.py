"""The pages of e2e test runs and of the tutorial, rendered again for every request."""

from __future__ import annotations

import asyncio

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mngr.web.live.app_state import get_site
from mngr.web.live.e2e import e2e_paths
from mngr.web.live.security import RECORDING_POLICY
from mngr.web.live.static_pages import add_navigation, send_static


async def redirect_to_tests(request: Request) -> Response:
    """Lead to the page whose relative links work."""
    return RedirectResponse("/tests/", 301)


async def show_tests(request: Request) -> Response:
    """Return the page of all test runs, of one run, of one test, or the tutorial."""
    site, path = get_site(request), request.path_params["path"]
    if path.startswith("static/"):
        return await send_static(request, path.removeprefix("static/"))
    if path and not path.endswith(("/", ".html")):
        if any(part in ("", ".", "..") for part in path.split("/")):
            raise HTTPException(404, "page not found")
        return RedirectResponse(f"/tests/{path}/", 301)
    text = await asyncio.to_thread(e2e_paths.render_path, site.artifacts_dir, path, site.script)
    headers = {"Content-Security-Policy": RECORDING_POLICY}
    return HTMLResponse(add_navigation(text).encode("utf-8", "replace"), headers=headers)
