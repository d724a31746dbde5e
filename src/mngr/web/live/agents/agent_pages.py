"""The page with all agents, the page of one agent, and the actions of the person on them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from mngr.base.model import Outcome
from mngr.base.untrusted_json import get_text
from mngr.overview.actions import ALLOW, DENY, MESSAGE, PULL, START, STOP, Action, run_action
from mngr.overview.agent_details import TABS
from mngr.overview.card_words import DONE_WORDS, format_failure
from mngr.overview.untrusted_text import clean_line
from mngr.web.live.agents.agent_stream import stream_agent
from mngr.web.live.agents.overview_stream import stream_overview
from mngr.web.live.app_state import get_site, read_object
from mngr.web.live.background_calls import TooManyCalls
from mngr.web.live.event_stream import EventStream

ALLOWED_ACTIONS = (ALLOW, DENY, MESSAGE, PULL, STOP, START)


async def show_agents(request: Request) -> Response:
    """Return the page with all agents. Its cards arrive as events."""
    return HTMLResponse(get_site(request).render("agents.html", page="agents"))


async def send_overview(request: Request) -> Response:
    """Send the cards of all agents and runs, and then each change."""
    return EventStream(stream_overview(get_site(request)))


async def show_agent(request: Request) -> Response:
    """Return the page of one agent. Its head and its tab arrive as events."""
    agent_id = request.path_params["agent"]
    tab = _read_tab(request)
    return HTMLResponse(get_site(request).render("agent.html", page="agent", agent=agent_id, tabs=TABS, tab=tab))


async def send_agent(request: Request) -> Response:
    """Send the head and the tab of one agent, and then each change."""
    return EventStream(stream_agent(get_site(request), request.path_params["agent"], _read_tab(request)))


async def act_on_agent(request: Request) -> Response:
    """Run an action on one agent, and return what became of it."""
    site = get_site(request)
    row = await read_object(request)
    kind, agent_id = get_text(row, "kind"), request.path_params["agent"]
    if kind not in ALLOWED_ACTIONS:
        return JSONResponse({"ok": False, "text": "there is no such action"}, 400)
    if kind == MESSAGE and not get_text(row, "text").strip():
        return JSONResponse({"ok": False, "text": "the message is empty"}, 400)
    # Without the state that the person saw, an answer could reach another question.
    states = {agent_id: get_text(row, "state")} if kind in (ALLOW, DENY) else {}
    action = Action(kind=kind, ids=(agent_id,), text=get_text(row, "text"), seen_states=states)
    try:
        (outcome,) = await site.actions.run(lambda: run_action(site.fleet, action))
    except TooManyCalls:
        return JSONResponse({"ok": False, "text": "too many actions wait for hosts that do not answer"}, 503)
    site.follower.refresh([agent_id])
    return JSONResponse({"ok": outcome.ok, "text": describe_outcome(kind, outcome)})


def describe_outcome(kind: str, outcome: Outcome) -> str:
    """Return what became of an action, as one line."""
    if not outcome.ok:
        return clean_line(format_failure(outcome))
    notes = f" ({'; '.join(outcome.notes)})" if outcome.notes else ""
    return clean_line(f"{DONE_WORDS[kind]} {outcome.name}{notes}")


def _read_tab(request: Request) -> str:
    tab = request.query_params.get("tab", "")
    return tab if tab in TABS else next(iter(TABS))
