"""Removes clean rooms. They hold no agent's work, so mngr deletes them without moving them to the trash."""

from __future__ import annotations

from mngr.agents import remove_hosts
from mngr.agents.context import Context
from mngr.agents.inspect.for_each_agent import resolve_names, run_on_targets
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.workdir.discard_agent import discard_agent
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Outcome
from mngr.host import record_store

CLEAN_ROOM_LABEL = ("role", "clean-room")


def discard_clean_rooms(ctx: Context, names: list[str]) -> list[Outcome]:
    """Delete clean rooms, running or not, and return an outcome for each name.

    An agent that is not a clean room fails with an error and stays as it is. A host that was created for the
    clean rooms is destroyed with the last of them.
    """

    def discard(observed: ObservedAgent, record: AgentRecord) -> Outcome:
        key, value = CLEAN_ROOM_LABEL
        if record.labels.get(key) != value or record.transfer not in ("mirror", "copy"):
            raise MngrError(
                f"{record.name} is not a clean room and may hold work, so mngr does not delete it",
                f"move it to the trash: mngr destroy {record.name}",
            )
        if record.phase != "ready" and record_store.is_owner_alive(record.owner, not observed.host.is_local):
            raise MngrError(
                f"another mngr command is working on {record.name}", f"see its state: mngr explain {record.name}"
            )
        discard_agent(ctx, observed.host, record)
        return Outcome(id=record.id, name=record.name)

    targets = resolve_names(ctx, names)
    outcomes = run_on_targets(ctx, names, discard, observed=targets)
    discarded_ids = {outcome.id for outcome in outcomes if outcome.ok}
    remove_hosts.destroy_empty_hosts(
        ctx,
        [observed.host for observed in targets if not isinstance(observed, MngrError) and observed.id in discarded_ids],
    )
    return outcomes
