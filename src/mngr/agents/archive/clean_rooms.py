"""Rooms: agents that hold nobody's work. Only they are taken away without a grave."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.targets import resolve_names, run_on_targets
from mngr.agents.workdir.discard import discard_agent
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Outcome
from mngr.host import store

CLEAN_ROOM_LABEL = ("role", "room")


def discard_clean_rooms(ctx: Context, names: list[str]) -> list[Outcome]:
    """Take rooms away, running or not; an agent that is none stays as it is, and a host made for them goes with the last."""

    def one(seen: ObservedAgent, record: AgentRecord) -> Outcome:
        key, value = CLEAN_ROOM_LABEL
        if record.labels.get(key) != value or record.transfer not in ("mirror", "copy"):
            raise MngrError(
                f"{record.name} is no room: it may hold work", f"put it away with: mngr destroy {record.name}"
            )
        if record.phase != "ready" and store.is_owner_alive(record.owner, not seen.host.is_local):
            raise MngrError(f"another command is at work on {record.name}", "see: mngr list")
        discard_agent(ctx, seen.host, record)
        return Outcome(id=record.id, name=record.name)

    found = resolve_names(ctx, names)
    outcomes = run_on_targets(ctx, names, one, found=found)
    done = {outcome.id for outcome in outcomes if outcome.ok}
    removal.destroy_empty_hosts(
        ctx, [seen.host for seen in found if not isinstance(seen, MngrError) and seen.id in done]
    )
    return outcomes
