"""Rooms: agents that hold nobody's work. Only they are taken away without a grave."""

from __future__ import annotations

from mngr import store
from mngr.errors import MngrError
from mngr.model import Outcome
from mngr.ops import hosts
from mngr.ops.discard import discard
from mngr.ops.targets import each, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.model import AgentRecord
    from mngr.ops.context import Context
    from mngr.ops.list import Seen

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
    hosts.retire(ctx, [seen.host for seen in found if not isinstance(seen, MngrError) and seen.id in done])
    return outcomes
