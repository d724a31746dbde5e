"""`connect` and `next`: which terminal to take over, and how."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.targets import LIVE_STATES, get_record
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import AgentView
from mngr.host import store, tmux


def build_attach_argv(ctx: Context, name: str) -> list[str]:
    """What to run here so that this terminal shows the agent; MngrError when it has no screen, or is this terminal."""
    seen = find.observe_agent(ctx, name)
    record = get_record(seen)
    if seen.evidence.pane is None:
        if seen.state.state in LIVE_STATES:
            raise MngrError(f"{record.name} is still starting", "try again")
        raise MngrError(f"{record.name} does not run ({seen.state.state})", f"start it with: mngr start {record.name}")
    if os.environ.get("MNGR_AGENT_ID") == record.id:
        raise MngrError(
            f"this terminal is in a window of {record.name}, which cannot show itself",
            "choose a window with the keys of tmux: Ctrl-b w",
        )
    store.add_event(seen.host, record.id, "connected")
    is_inside = seen.host.is_local and os.environ.get("TMUX", "").split(",")[0] == seen.host.tmux_socket
    verb = "switch-client" if is_inside else "attach-session"
    return seen.host.build_attach_argv(tmux.build_argv(seen.host, verb, "-t", f"={seen.evidence.pane['session']}"))


def build_connect_variables(ctx: Context, name: str) -> dict[str, str]:
    """What a connect command finds in its environment."""
    seen = find.observe_agent(ctx, name)
    record = get_record(seen)
    return {
        "MNGR_AGENT_NAME": record.name,
        "MNGR_AGENT_ID": record.id,
        "MNGR_WORK_DIR": record.work_dir,
        "MNGR_TMUX_SOCKET": seen.host.tmux_socket,
    }


def get_longest_waiting(ctx: Context) -> AgentView:
    """The agent that has waited longest for a person."""
    waiting = [a for a in listing.list_agents(ctx).agents if a.state == "WAITING"]
    if not waiting:
        raise NotFound("no agent waits for you", "see: mngr list")
    return min(waiting, key=lambda a: a.state_since or "")
