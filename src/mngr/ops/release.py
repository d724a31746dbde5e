"""`release`: a host that was made for some agents goes when they are done; all that they are is in the graveyard then."""

from __future__ import annotations

from mngr.errors import HostGone, MngrError, NotFound
from mngr.ops import hosts
from mngr.ops.destroy import put_away
from mngr.ops.discard import discard
from mngr.ops.rooms import ROLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.context import Context
    from mngr.ops.list import Seen


def release(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    """Take a host away whose agents all have this label; their names. MngrError when it stays, with those that could not be saved."""
    try:
        return _release(ctx, provider, name, label)
    except NotFound:  # another command was faster
        return []


def _release(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    try:
        found = hosts.look_to_destroy(ctx, provider, name)
    except HostGone:
        found = []
    strangers = [seen for seen in found if not _has(seen, label)]
    ours = [seen for seen in found if _has(seen, label)]
    for seen in ours:
        if seen.record is not None and _has(seen, ROLE):
            discard(ctx, seen.host, seen.record)
    outcomes = put_away(ctx, [seen for seen in ours if not _has(seen, ROLE)])
    for outcome in outcomes:
        if not outcome.ok:
            raise MngrError(
                f"{name} stays, for {outcome.name} could not be put away: {outcome.error}", outcome.hint
            )
    if strangers:
        other = strangers[0].record.name if strangers[0].record else strangers[0].id
        raise MngrError(
            f"{name} stays, for {other} is on it too", f"when that is done: mngr destroy @{name}.{provider}"
        )
    hosts.take_away(ctx, provider, name)
    return [outcome.name for outcome in outcomes]


def _has(seen: Seen, label: tuple[str, str]) -> bool:
    return seen.record is not None and seen.record.labels.get(label[0]) == label[1]
