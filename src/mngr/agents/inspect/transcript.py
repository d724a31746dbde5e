"""Reads an agent's conversation, in one schema for all kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.follow_files import Tail, TailGroup, iter_lines
from mngr.agents.inspect.trash import TrashedAgent, list_trash
from mngr.agents.sandbox import bubblewrap
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.model import AgentRecord, Struct
from mngr.host import host_store
from mngr.host.protocol import Host
from mngr.kinds.transcript_entry import TranscriptEntry

# Only plain files are read, because an agent can put links and devices there, also in place of a directory.
_IS_PLAIN = """
is_plain() {
    [ -f "$1" ] || return 1
    while ! [ -L "$1" ]; do
        case $1 in */*) set -- "${1%/*}" ;; *) return 0 ;; esac
    done
    return 1
}
"""
_LIST_FILES = f"""{_IS_PLAIN}
cd "$1" || exit 0
shift
set -- $*
for name; do
    if is_plain "$name"; then printf '%s\\n' "$name"; fi
done
"""
_READ_FILES = f"""{_IS_PLAIN}
cd "$1" || exit 0
shift
ls -tr -d $* 2>/dev/null | while IFS= read -r name; do
    if is_plain "$name"; then cat "$name" && echo; fi
done
"""


class TranscriptLocation(Struct):
    """The location of a conversation: in the agent's directory or in the trash."""

    host: Host
    record: AgentRecord
    directory: str
    is_destroyed: bool = False


def read_transcript(ctx: Context, name: str) -> list[TranscriptEntry]:
    """Return all entries so far, also of a destroyed agent. Raise MngrError when the kind keeps no transcript."""
    return read_entries(ctx, get_transcript_location(ctx, name))


def get_transcript_location(ctx: Context, name: str) -> TranscriptLocation:
    """Return where the conversation of the agent is, or of the last destroyed one of this name. Raise NotFound."""
    try:
        host, record = find.get_agent(ctx, name)
    except NotFound:
        for trashed in reversed(list_trash(ctx)):
            if name in (trashed.id, trashed.name) and trashed.problem is None:
                return locate_trashed_transcript(ctx, trashed)
        raise
    return TranscriptLocation(host=host, record=record, directory=host.home.agent_dir(record.id))


def locate_trashed_transcript(ctx: Context, trashed: TrashedAgent) -> TranscriptLocation:
    """Return the location of a destroyed agent's conversation."""
    record = trashed.saved.record
    assert record is not None, "only an agent with a problem has no record"
    return TranscriptLocation(
        host=ctx.local_host, record=record, directory=os.path.join(trashed.trash_dir, "agent"), is_destroyed=True
    )


def read_entries(ctx: Context, location: TranscriptLocation) -> list[TranscriptEntry]:
    """Return all entries of a conversation so far. Raise MngrError when the kind keeps no transcript."""
    patterns = _get_file_patterns(ctx, location.record)
    host = location.host
    if not location.is_destroyed:
        host = bubblewrap.open_sandboxed_host(host, location.record)
    out = host.run(["sh", "-c", _READ_FILES, "read", location.directory, *patterns]).out
    return list(ctx.get_agent_kind(location.record).parse_transcript(out.split(b"\n")))


def follow_transcript(ctx: Context, name: str) -> Iterator[TranscriptEntry]:
    """Yield all entries so far and then new ones, until the agent is destroyed."""
    location = get_transcript_location(ctx, name)
    if location.is_destroyed:
        yield from read_entries(ctx, location)
        return
    record = location.record
    host = bubblewrap.open_sandboxed_host(location.host, record)
    tails = TailGroup(ctx.note)
    try:
        yield from ctx.get_agent_kind(record).parse_transcript(_follow_lines(ctx, host, record, tails))
    finally:
        tails.close()


def _is_agent_present(ctx: Context, host: Host, record: AgentRecord) -> bool:
    """True when the agent still exists. False when it was removed together with its host."""
    try:
        return host.has_path(host.home.agent_dir(record.id))
    except Unreachable:
        if not host_store.is_removed(ctx.home, host.provider, host.name):
            raise
        return False


def _follow_lines(ctx: Context, host: Host, record: AgentRecord, tails: TailGroup) -> Iterator[bytes]:
    """Yield lines as they arrive, also from files that appear later, until the agent is destroyed."""
    followed: set[str] = set()
    patterns = _get_file_patterns(ctx, record)

    def follow_files(names: list[str]) -> None:
        for name in names:
            if name not in followed:
                followed.add(name)
                tails.add(Tail(host, [os.path.join(host.home.agent_dir(record.id), name)]))

    def follow_new_files() -> None:
        file_names = host.run(["sh", "-c", _LIST_FILES, "names", host.home.agent_dir(record.id), *patterns]).text
        follow_files(file_names.splitlines())

    follow_files([pattern for pattern in patterns if "*" not in pattern])
    follow_new_files()
    for lines in iter_lines(tails):
        yield from lines
        if not lines:
            if not _is_agent_present(ctx, host, record):
                return
            follow_new_files()


def _get_file_patterns(ctx: Context, record: AgentRecord) -> tuple[str, ...]:
    patterns = ctx.get_agent_kind(record).transcript_paths
    if not patterns:
        raise MngrError(
            f"{record.name} has no transcript, because agents of kind {record.kind} do not write one",
            f"see its screen: mngr capture {record.name}",
        )
    return patterns
