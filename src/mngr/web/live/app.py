"""All pages of the server, by their paths."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mngr.base.errors import MngrError
from mngr.web.live.agents import agent_pages
from mngr.web.live.e2e import e2e_pages
from mngr.web.live.runs import run_pages
from mngr.web.live.security import Access, AccessCheck
from mngr.web.live.site import Site
from mngr.web.live.static_pages import send_static

_AGENT = "/agents/{agent:str}"
_RUN = "/runs/{run:str}"


def build_app(site: Site, access: Access) -> ASGIApp:
    """Return the application. Every request passes the check of its origin first."""
    routes = [
        Route("/", agent_pages.show_agents),
        Route("/events", agent_pages.send_overview),
        Route(_AGENT, agent_pages.show_agent),
        Route(f"{_AGENT}/events", agent_pages.send_agent),
        Route(f"{_AGENT}/actions", agent_pages.act_on_agent, methods=["POST"]),
        Route("/runs", run_pages.show_runs),
        Route(_RUN, run_pages.show_run),
        Route(f"{_RUN}/events", run_pages.send_run),
        Route(f"{_RUN}/leave-out", run_pages.leave_out_change, methods=["POST"]),
        Route(f"{_RUN}/report/{{path:path}}", run_pages.show_report),
        Route("/tests", e2e_pages.redirect_to_tests),
        Route("/tests/{path:path}", e2e_pages.show_tests),
        Route("/static/{name:str}", send_static),
    ]
    app = Starlette(
        routes=routes, exception_handlers={MngrError: _show_error, HTTPException: _show_error, ValueError: _show_error}
    )
    app.state.site = site
    return AccessCheck(app, access)


async def _show_error(request: Request, error: Exception) -> Response:
    """Return the page, or for a script the facts, about an error."""
    hint = None
    if isinstance(error, HTTPException):
        code, text = error.status_code, error.detail
    elif isinstance(error, MngrError):
        code, text, hint = 404, error.message, error.hint
    else:
        code, text = 400, str(error)
    if request.method == "POST":
        return JSONResponse({"ok": False, "text": text}, code)
    site: Site = request.app.state.site
    return Response(site.render("error.html", page="", text=text, hint=hint), code, media_type="text/html")
