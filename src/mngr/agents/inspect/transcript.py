"""Reads an agent's conversation, in one schema for all kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.tail import Tail, TailGroup, iter_lines
from mngr.agents.inspect.trash import TrashedAgent, list_trash
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.model import AgentRecord, Struct
from mngr.host import registry
from mngr.host.protocol import Host

ROLES = ("user", "assistant", "tool")
FIELDS = ("at", "role", "text", "tool", "input", "output", "model", "usage")
# Only plain files are read, because an agent can put links and devices there.
_LIST_FILES = """
cd "$1" || exit 0
shift
set -- $*
for name; do
    if [ -f "$name" ] && ! [ -L "$name" ]; then printf '%s\\n' "$name"; fi
done
"""
_READ_FILES = """
cd "$1" || exit 0
shift
ls -tr -d $* 2>/dev/null | while IFS= read -r name; do
    if [ -f "$name" ] && ! [ -L "$name" ]; then cat "$name" && echo; fi
done
"""


class TranscriptLocation(Struct):
    """The location of a conversation: in the agent's directory or in the trash."""

    host: Host
    record: AgentRecord
    directory: str
    is_destroyed: bool = False


def read_transcript(ctx: Context, name: str) -> list[dict[str, Any]]:
    """Return all rows so far, also of a destroyed agent. Raise MngrError when the kind keeps no transcript."""
    return read_rows(ctx, get_transcript_location(ctx, name))


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
    record = AgentRecord(**trashed.meta["record"])
    return TranscriptLocation(
        host=ctx.local_host, record=record, directory=os.path.join(trashed.place, "agent"), is_destroyed=True
    )


def read_rows(ctx: Context, location: TranscriptLocation) -> list[dict[str, Any]]:
    """Return all rows of a conversation so far. Raise MngrError when the kind keeps no transcript."""
    patterns = _get_file_patterns(ctx, location.record)
    out = location.host.run(["sh", "-c", _READ_FILES, "read", location.directory, *patterns]).out
    parsed_rows = ctx.get_agent_kind(location.record).parse_transcript(out.split(b"\n"))
    return [row for parsed_row in parsed_rows if (row := _normalize_row(parsed_row))]


def follow_transcript(ctx: Context, name: str) -> Iterator[dict[str, Any]]:
    """Yield all rows so far and then new ones, until the agent is destroyed."""
    location = get_transcript_location(ctx, name)
    if location.is_destroyed:
        yield from read_rows(ctx, location)
        return
    host, record = location.host, location.record
    tails = TailGroup()
    try:
        for row in ctx.get_agent_kind(record).parse_transcript(_follow_lines(ctx, host, record, tails)):
            normalized = _normalize_row(row)
            if normalized:
                yield normalized
    finally:
        tails.close()


def _is_agent_present(ctx: Context, host: Host, record: AgentRecord) -> bool:
    """True when the agent still exists. False when it was removed together with its host."""
    try:
        return host.has_path(host.home.agent_dir(record.id))
    except Unreachable:
        if not registry.is_removed(ctx.home, host.provider, host.name):
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
            f"{record.name} is of kind {record.kind}, which keeps no transcript",
            f"see its screen: mngr capture {record.name}",
        )
    return patterns


def _normalize_row(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the row with the fields of the schema, or None when it is not a valid row."""
    if row.get("role") not in ROLES or not isinstance(row.get("text"), str):
        return None
    return {"v": 1, **{field: row.get(field) for field in FIELDS}}
