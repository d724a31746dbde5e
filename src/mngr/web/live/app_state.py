"""What every page of the server takes from a request."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from mngr.base.untrusted_json import as_object, parse_json
from mngr.web.live.site import Site

MAX_BODY_BYTES = 1 << 18  # of a request with an action


def get_site(request: Request) -> Site:
    """Return the site that a request is for."""
    site: Site = request.app.state.site
    return site


async def read_object(request: Request) -> Mapping[str, object]:
    """Return the JSON object in the body of a request. Raise ValueError for other bodies, and for very long ones."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise ValueError("the request is too long")
    return as_object(parse_json(body))
