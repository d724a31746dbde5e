"""`prepare`: a snapshot of a host that has the project and what its set-up makes, so that others need not make it again."""

from __future__ import annotations

from mngr import store
from mngr.errors import MngrError
from mngr.ops import find, hosts
from mngr.ops.create import CreateRequest, create
from mngr.ops.discard import discard
from mngr.ops.rooms import ROLE, discard_rooms
from mngr.ops.snapshot import create_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.context import Context


def prepare(ctx: Context, request: CreateRequest, snapshot: str) -> str:
    """Make a host as `request` says, with a room in place of an agent; snapshot it without the room; it is gone then."""
    room = request.replace(
        kind="command", args=["true"], dirty="ignore", labels={**request.labels, ROLE[0]: ROLE[1]}
    )
    name = find.address(ctx, request.address or "").name
    assert name is not None
    if store.find_id(ctx.home, name) is not None:  # of a preparation that was cut off
        discard_rooms(ctx, [name])
    made = create(ctx, room)[0]
    if isinstance(made, Exception):
        raise made
    host, record = find.find(ctx, made.id)
    try:
        discard(ctx, host, record)
        return create_snapshot(ctx, f"@{host.name}.{host.provider}", snapshot).name
    finally:
        try:
            hosts.take_away(ctx, host.provider, host.name)
        except MngrError as error:
            ctx.note(f"{host.name} was made to be prepared, and is left: {error.message}")
