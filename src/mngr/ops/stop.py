"""`stop`: end the processes, keep everything."""

from __future__ import annotations

from mngr import clock, store
from mngr.errors import MngrError
from mngr.model import Outcome
from mngr.ops.discard import end_processes
from mngr.ops.targets import LIVE, failed, record_of, resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.ops.context import Context
    from mngr.ops.list import Seen


def stop(ctx: Context, wanted: list[str], grace: float | None = None) -> list[Outcome]:
    """Stop agents, all of a host in one go; one that has ended already is left as it is."""
    if grace is None:
        grace = clock.parse_length(str(ctx.settings.get("stop.grace")))
    outcomes: list[Outcome] = []
    live: dict[int, tuple[Host, list[Seen]]] = {}
    for name, seen in zip(wanted, resolve(ctx, wanted), strict=True):
        if isinstance(seen, MngrError):
            outcomes.append(failed(name, seen))
            continue
        try:
            record = record_of(seen)
        except MngrError as error:
            outcomes.append(failed(name, error, seen.id))
            continue
        if seen.state.state in LIVE:
            live.setdefault(id(seen.host), (seen.host, []))[1].append(seen)
        outcomes.append(Outcome(id=seen.id, name=record.name, extra={"was": seen.state.state}))
    for host, group in live.values():
        end_processes(host, [seen.id for seen in group], grace=grace, reason="")
        for seen in group:
            store.add_event(host, seen.id, "stopped", reason="user")
            ctx.hooks.tell("mngr_stopped", agent=seen.record)
    return outcomes
