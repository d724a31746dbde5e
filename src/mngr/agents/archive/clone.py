"""`clone`: creates a second agent with the same work tree, conversation and settings."""

from __future__ import annotations

import os

from mngr.agents.archive.snapshot import create_from_saved, number_name, parse_new_address
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.for_each_agent import LIVE_STATES
from mngr.agents.saved import fetch_to_temporary_home
from mngr.agents.saved.save import SaveRequest, remove_saved_directory
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord


def clone_agent(ctx: Context, agent: str, new_address: str | None = None, *, start: bool = True) -> AgentRecord:
    """Save the agent as it is now and create a new agent from it, on its own branch at the same commit."""
    observed = find.observe_agent(ctx, agent)
    host, record = find.get_agent(ctx, observed.id)
    if record.phase != "ready":
        raise MngrError(
            f"{record.name} is incomplete ({observed.state.reason}), so mngr cannot clone it",
            f"see what is wrong: mngr explain {record.name}",
        )
    name, target = parse_new_address(ctx, new_address) if new_address is not None else (None, None)
    saved_dir = os.path.join(ctx.home.snapshots, f".clone-{os.getpid()}-{os.urandom(3).hex()}")
    is_live = observed.state.state in LIVE_STATES
    request = SaveRequest(target=saved_dir, why="clone", agent_files=True, was_running=is_live)
    saved = fetch_to_temporary_home.save_agent(ctx, host, record, request)
    try:
        return create_from_saved(
            ctx,
            saved_dir,
            saved,
            name or number_name(ctx, record.name),
            target or host,
            operation="clone",
            start=start,
        )
    finally:
        remove_saved_directory(ctx, saved_dir)
