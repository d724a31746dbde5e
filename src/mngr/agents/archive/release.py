"""`release`: a host that was made for some agents goes when they are done; all that they are is in the graveyard then."""

from __future__ import annotations

from mngr.agents.archive.destroy import put_away
from mngr.agents.archive.rooms import ROLE
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import Seen
from mngr.agents.workdir.discard import discard
from mngr.base.errors import HostGone, MngrError, NotFound
from mngr.base.model import AgentRecord
from mngr.host import store

_EMPTY = '[ -z "$(find "$1" ! -type d ! -name agent.json.new | head -n 1)" ]'


def release(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    """Take a host away whose agents all have this label; their names. MngrError when it stays, with those that could not be saved."""
    try:
        return _release(ctx, provider, name, label)
    except NotFound:  # another command was faster
        return []


def _release(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    try:
        found = removal.look_to_destroy(ctx, provider, name)
    except HostGone:
        found = []
    strangers = [seen for seen in found if not _has(seen, label) and not _is_nothing(seen)]
    ours = [seen for seen in found if _has(seen, label)]
    kept = []
    for seen in ours:
        if seen.record is not None and (_has(seen, ROLE) or _is_half(seen.record)):
            discard(ctx, seen.host, seen.record)
        else:
            kept.append(seen)
    outcomes = put_away(ctx, kept)
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
    removal.take_away(ctx, provider, name)
    return [outcome.name for outcome in outcomes]


def _has(seen: Seen, label: tuple[str, str]) -> bool:
    return seen.record is not None and seen.record.labels.get(label[0]) == label[1]


def _is_half(record: AgentRecord) -> bool:
    """Whether its making was cut off, be it ours: who gives a host back makes nobody there any more."""
    is_ours = store.is_this_process(record.owner)
    return record.phase == "creating" and (is_ours or not store.is_alive(record.owner, elsewhere=True))


def _is_nothing(seen: Seen) -> bool:
    """Whether it was cut off before its record was written: there is a directory, and no file in it."""
    return (
        seen.record is None
        and seen.host.run(["sh", "-c", _EMPTY, "empty", seen.host.home.agent(seen.id)]).code == 0
    )
