"""`transcript`: an agent's conversation, in one schema for all kinds."""

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
# Plain files only: an agent can put anything in their place.
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
    """Where a conversation lies: with its agent, or in the graveyard."""

    host: Host
    record: AgentRecord
    directory: str
    is_destroyed: bool = False


def read_transcript(ctx: Context, name: str) -> list[dict[str, Any]]:
    """Every row so far, also of an agent that was destroyed; MngrError when its kind keeps none."""
    return read_rows(ctx, get_transcript_location(ctx, name))


def get_transcript_location(ctx: Context, name: str) -> TranscriptLocation:
    """The conversation of an agent, the last destroyed one when none has this name now; raises NotFound."""
    try:
        host, record = find.get_agent(ctx, name)
    except NotFound:
        for grave in reversed(list_trash(ctx)):
            if name in (grave.id, grave.name) and grave.problem is None:
                return locate_trashed_transcript(ctx, grave)
        raise
    return TranscriptLocation(host=host, record=record, directory=host.home.agent_dir(record.id))


def locate_trashed_transcript(ctx: Context, grave: TrashedAgent) -> TranscriptLocation:
    """The conversation of a destroyed agent."""
    record = AgentRecord(**grave.meta["record"])
    return TranscriptLocation(
        host=ctx.local_host, record=record, directory=os.path.join(grave.place, "agent"), is_destroyed=True
    )


def read_rows(ctx: Context, kept: TranscriptLocation) -> list[dict[str, Any]]:
    """Every row of a conversation so far; MngrError when its kind keeps none."""
    patterns = _get_file_patterns(ctx, kept.record)
    out = kept.host.run(["sh", "-c", _READ_FILES, "read", kept.directory, *patterns]).out
    found = ctx.get_agent_kind(kept.record).parse_transcript(out.split(b"\n"))
    return [row for one in found if (row := _normalize_row(one))]


def follow_transcript(ctx: Context, name: str) -> Iterator[dict[str, Any]]:
    """Every row so far and then as they come, until the agent is destroyed."""
    kept = get_transcript_location(ctx, name)
    if kept.is_destroyed:
        yield from read_rows(ctx, kept)
        return
    host, record = kept.host, kept.record
    tails = TailGroup()
    try:
        for row in ctx.get_agent_kind(record).parse_transcript(_follow_lines(ctx, host, record, tails)):
            checked = _normalize_row(row)
            if checked:
                yield checked
    finally:
        tails.close()


def _is_agent_present(ctx: Context, host: Host, record: AgentRecord) -> bool:
    """Whether the agent is still there; not when it went with its host."""
    try:
        return host.has_path(host.home.agent_dir(record.id))
    except Unreachable:
        if not registry.is_removed(ctx.home, host.provider, host.name):
            raise
        return False


def _follow_lines(ctx: Context, host: Host, record: AgentRecord, tails: TailGroup) -> Iterator[bytes]:
    """Lines as they come, also of files that come later, until the agent is destroyed."""
    known: set[str] = set()
    patterns = _get_file_patterns(ctx, record)

    def add(names: list[str]) -> None:
        for name in names:
            if name not in known:
                known.add(name)
                tails.add(Tail(host, [os.path.join(host.home.agent_dir(record.id), name)]))

    def look() -> None:
        found = host.run(["sh", "-c", _LIST_FILES, "names", host.home.agent_dir(record.id), *patterns]).text
        add(found.splitlines())

    add([pattern for pattern in patterns if "*" not in pattern])
    look()
    for lines in iter_lines(tails):
        yield from lines
        if not lines:
            if not _is_agent_present(ctx, host, record):
                return
            look()


def _get_file_patterns(ctx: Context, record: AgentRecord) -> tuple[str, ...]:
    patterns = ctx.get_agent_kind(record).transcript_paths
    if not patterns:
        raise MngrError(
            f"{record.name} is of kind {record.kind}, which keeps no transcript",
            f"see its screen: mngr capture {record.name}",
        )
    return patterns


def _normalize_row(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of our schema; whatever else an agent may have written there is left out."""
    if row.get("role") not in ROLES or not isinstance(row.get("text"), str):
        return None
    return {"v": 1, **{field: row.get(field) for field in FIELDS}}
