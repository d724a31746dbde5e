"""`clone`: a second agent with the same work tree, conversation and settings."""

from __future__ import annotations

import os

from mngr.agents.archive.snapshot import free_name, make_new, new_place
from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.targets import LIVE
from mngr.agents.saved import stage
from mngr.agents.saved.save import remove_saved
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord


def clone(ctx: Context, agent: str, new: str | None = None, *, start: bool = True) -> AgentRecord:
    """Save the agent as it is now, and make a new one from that, on a branch of its own at the same commit."""
    seen = find.get_seen(ctx, agent)
    host, record = find.find(ctx, seen.id)
    if record.phase != "ready":
        raise MngrError(f"{record.name} is not whole ({seen.state.reason})", "see: mngr list")
    name, target = new_place(ctx, new) if new is not None else (None, None)
    place = os.path.join(ctx.home.snapshots, f".clone-{os.getpid()}-{os.urandom(3).hex()}")
    is_live = seen.state.state in LIVE
    meta = stage.save(ctx, host, record, place, why="clone", agent_files=True, was_running=is_live)
    try:
        return make_new(
            ctx,
            place,
            meta,
            name or free_name(ctx, record.name),
            target or host,
            operation="clone",
            start=start,
        )
    finally:
        remove_saved(ctx, place)
