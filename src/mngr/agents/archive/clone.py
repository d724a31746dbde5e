"""`clone`: a second agent with the same work tree, conversation and settings."""

from __future__ import annotations

import os

from mngr.agents.archive.snapshot import create_from_saved, number_name, parse_new_address
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.targets import LIVE_STATES
from mngr.agents.saved import staging
from mngr.agents.saved.save import remove_saved_directory
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord


def clone_agent(ctx: Context, agent: str, new: str | None = None, *, start: bool = True) -> AgentRecord:
    """Save the agent as it is now, and make a new one from that, on a branch of its own at the same commit."""
    seen = find.observe_agent(ctx, agent)
    host, record = find.get_agent(ctx, seen.id)
    if record.phase != "ready":
        raise MngrError(f"{record.name} is not whole ({seen.state.reason})", "see: mngr list")
    name, target = parse_new_address(ctx, new) if new is not None else (None, None)
    place = os.path.join(ctx.home.snapshots, f".clone-{os.getpid()}-{os.urandom(3).hex()}")
    is_live = seen.state.state in LIVE_STATES
    meta = staging.save_agent(ctx, host, record, place, why="clone", agent_files=True, was_running=is_live)
    try:
        return create_from_saved(
            ctx,
            place,
            meta,
            name or number_name(ctx, record.name),
            target or host,
            operation="clone",
            start=start,
        )
    finally:
        remove_saved_directory(ctx, place)
