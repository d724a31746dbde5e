"""`prepare`: a snapshot of a host that has the project and what its set-up makes, so that others need not make it again."""

from __future__ import annotations

from mngr.agents.archive.clean_rooms import CLEAN_ROOM_LABEL, discard_clean_rooms
from mngr.agents.archive.snapshot import create_snapshot
from mngr.agents.context import Context
from mngr.agents.create.create import create_agents
from mngr.agents.create.request import CreateRequest
from mngr.agents.hosts import removal
from mngr.agents.inspect import find
from mngr.agents.workdir.discard import discard_agent
from mngr.base.errors import MngrError
from mngr.host import store


def snapshot_prepared_host(ctx: Context, request: CreateRequest, snapshot: str) -> str:
    """Make a host as `request` says, with a room in place of an agent; snapshot it without the room; it is gone then."""
    room = request.replace(
        kind="command",
        args=["true"],
        dirty="ignore",
        labels={**request.labels, CLEAN_ROOM_LABEL[0]: CLEAN_ROOM_LABEL[1]},
    )
    name = find.parse_address(ctx, request.address or "").name
    assert name is not None
    if store.find_id(ctx.home, name) is not None:  # of a preparation that was cut off
        discard_clean_rooms(ctx, [name])
    made = create_agents(ctx, room)[0]
    if isinstance(made, Exception):
        raise made
    host, record = find.get_agent(ctx, made.id)
    try:
        discard_agent(ctx, host, record)
        return create_snapshot(ctx, f"@{host.name}.{host.provider}", snapshot).name
    finally:
        try:
            removal.destroy_host(ctx, host.provider, host.name)
        except MngrError as error:
            ctx.note(f"{host.name} was made to be prepared, and is left: {error.message}")
