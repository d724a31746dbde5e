"""Builds the command that attaches a terminal to an agent, and finds the agent that has waited longest."""

from __future__ import annotations

import os

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.for_each_agent import LIVE_STATES, get_record
from mngr.base.errors import MngrError, NotFound
from mngr.base.model import AgentView
from mngr.host import record_store, tmux_server


def build_attach_argv(ctx: Context, name: str) -> list[str]:
    """Return the command that shows the agent in this terminal.

    Raise MngrError when the agent has no screen, or when this terminal is one of its windows.
    """
    observed = find.observe_agent(ctx, name)
    record = get_record(observed)
    if observed.evidence.pane is None:
        if observed.state.state in LIVE_STATES:
            raise MngrError(
                f"{record.name} is still starting", f"wait until it has started, then run: mngr connect {record.name}"
            )
        raise MngrError(
            f"{record.name} is not running (state: {observed.state.state})", f"start it: mngr start {record.name}"
        )
    if os.environ.get("MNGR_AGENT_ID") == record.id:
        raise MngrError(
            f"this terminal is already a window of {record.name}",
            "choose another window with the tmux keys Ctrl-b w",
        )
    record_store.add_event(observed.host, record.id, "connected")
    is_inside = observed.host.is_local and os.environ.get("TMUX", "").split(",")[0] == observed.host.tmux_socket
    verb = "switch-client" if is_inside else "attach-session"
    return observed.host.build_attach_argv(
        tmux_server.build_argv(observed.host, verb, "-t", f"={observed.evidence.pane['session']}")
    )


def build_connect_variables(ctx: Context, name: str) -> dict[str, str]:
    """Return the environment variables for the user's connect command."""
    observed = find.observe_agent(ctx, name)
    record = get_record(observed)
    return {
        "MNGR_AGENT_NAME": record.name,
        "MNGR_AGENT_ID": record.id,
        "MNGR_WORK_DIR": record.work_dir,
        "MNGR_TMUX_SOCKET": observed.host.tmux_socket,
    }


def get_longest_waiting(ctx: Context) -> AgentView:
    """Return the agent that has waited longest for a person. Raise NotFound when none waits."""
    waiting = [agent for agent in listing.list_agents(ctx).agents if agent.state == "WAITING"]
    if not waiting:
        raise NotFound("no agent is waiting for you", "list the agents: mngr list")
    return min(waiting, key=lambda agent: agent.state_since or "")
