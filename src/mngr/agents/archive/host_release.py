"""`release`: a host that was made for some agents goes when they are done; all that they are is in the graveyard then."""

from __future__ import annotations

from mngr.agents.archive.clean_rooms import CLEAN_ROOM_LABEL
from mngr.agents.archive.destroy import move_to_trash
from mngr.agents.context import Context
from mngr.agents.hosts import removal
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.workdir.discard import discard_agent
from mngr.base.errors import HostGone, MngrError, NotFound
from mngr.base.model import AgentRecord
from mngr.host import store

_HAS_NO_FILES = '[ -z "$(find "$1" ! -type d ! -name agent.json.new | head -n 1)" ]'


def release_host(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    """Take a host away whose agents all have this label; their names. MngrError when it stays, with those that could not be saved."""
    try:
        return _save_agents_and_destroy(ctx, provider, name, label)
    except NotFound:  # another command was faster
        return []


def _save_agents_and_destroy(ctx: Context, provider: str, name: str, label: tuple[str, str]) -> list[str]:
    try:
        found = removal.list_agents_to_destroy(ctx, provider, name)
    except HostGone:
        found = []
    strangers = [seen for seen in found if not _has_label(seen, label) and not _is_empty_directory(seen)]
    ours = [seen for seen in found if _has_label(seen, label)]
    kept = []
    for seen in ours:
        if seen.record is not None and (_has_label(seen, CLEAN_ROOM_LABEL) or _is_create_interrupted(seen.record)):
            discard_agent(ctx, seen.host, seen.record)
        else:
            kept.append(seen)
    outcomes = move_to_trash(ctx, kept)
    for outcome in outcomes:
        if not outcome.ok:
            raise MngrError(f"{name} stays, for {outcome.name} could not be put away: {outcome.error}", outcome.hint)
    if strangers:
        other = strangers[0].record.name if strangers[0].record else strangers[0].id
        raise MngrError(
            f"{name} stays, for {other} is on it too", f"when that is done: mngr destroy @{name}.{provider}"
        )
    removal.destroy_host(ctx, provider, name)
    return [outcome.name for outcome in outcomes]


def _has_label(seen: ObservedAgent, label: tuple[str, str]) -> bool:
    return seen.record is not None and seen.record.labels.get(label[0]) == label[1]


def _is_create_interrupted(record: AgentRecord) -> bool:
    """Whether its making was cut off, be it ours: who gives a host back makes nobody there any more."""
    is_ours = store.is_this_process(record.owner)
    return record.phase == "creating" and (is_ours or not store.is_owner_alive(record.owner, elsewhere=True))


def _is_empty_directory(seen: ObservedAgent) -> bool:
    """Whether it was cut off before its record was written: there is a directory, and no file in it."""
    return (
        seen.record is None
        and seen.host.run(["sh", "-c", _HAS_NO_FILES, "empty", seen.host.home.agent_dir(seen.id)]).code == 0
    )
