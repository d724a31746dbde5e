"""Rooms: agents that hold nobody's work. Only they are taken away without a grave."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import Seen
from mngr.agents.inspect.targets import each, resolve
from mngr.agents.workdir.discard import discard
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Outcome
from mngr.host import store

ROLE = ("role", "room")


def discard_rooms(ctx: Context, names: list[str]) -> list[Outcome]:
    """Take rooms away, running or not; an agent that is none stays as it is, and a host made for them goes with the last."""

    def one(seen: Seen, record: AgentRecord) -> Outcome:
        key, value = ROLE
        if record.labels.get(key) != value or record.transfer not in ("mirror", "copy"):
            raise MngrError(
                f"{record.name} is no room: it may hold work", f"put it away with: mngr destroy {record.name}"
            )
        if record.phase != "ready" and store.is_alive(record.owner, not seen.host.is_here):
            raise MngrError(f"another command is at work on {record.name}", "see: mngr list")
        discard(ctx, seen.host, record)
        return Outcome(id=record.id, name=record.name)

    found = resolve(ctx, names)
    outcomes = each(ctx, names, one, found=found)
    done = {outcome.id for outcome in outcomes if outcome.ok}
    removal.retire(ctx, [seen.host for seen in found if not isinstance(seen, MngrError) and seen.id in done])
    return outcomes
