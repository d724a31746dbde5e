"""`prepare`: snapshots a host with the project and its set-up results, so that new hosts need not repeat the set-up."""

from __future__ import annotations

from mngr.agents import remove_hosts
from mngr.agents.archive.clean_rooms import CLEAN_ROOM_LABEL, discard_clean_rooms
from mngr.agents.archive.snapshot import create_snapshot
from mngr.agents.context import Context
from mngr.agents.create.create import create_agents
from mngr.agents.create.spec import AgentSpec
from mngr.agents.inspect import find
from mngr.agents.workdir.discard_agent import discard_agent
from mngr.base.errors import MngrError
from mngr.host import record_store


def snapshot_prepared_host(ctx: Context, spec: AgentSpec, snapshot: str) -> str:
    """Create a host as specified, snapshot it, destroy it, and return the snapshot's name.

    A clean room takes the place of the agent, so that the project and its set-up get onto the host. The clean room is
    deleted before the snapshot.
    """
    clean_room_spec = spec.replace(
        kind="command",
        command=["true"],
        dirty="ignore",
        labels={**spec.labels, CLEAN_ROOM_LABEL[0]: CLEAN_ROOM_LABEL[1]},
    )
    name = find.parse_address(ctx, spec.address or "").name
    assert name is not None
    if record_store.find_id(ctx.home, name) is not None:  # An interrupted prepare left this clean room.
        discard_clean_rooms(ctx, [name])
    created = create_agents(ctx, clean_room_spec)[0]
    if isinstance(created, Exception):
        raise created
    host, record = find.get_agent(ctx, created.agent.id)
    try:
        discard_agent(ctx, host, record)
        return create_snapshot(ctx, f"@{host.name}.{host.provider}", snapshot).name
    finally:
        try:
            remove_hosts.destroy_host(ctx, host.provider, host.name)
        except MngrError as error:
            ctx.note(f"mngr created the temporary host {host.name} and could not destroy it: {error.message}")
