"""`transcript`: an agent's conversation, in one schema for all kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.tail import Tail, Tails, every_second
from mngr.agents.inspect.trash import Grave, list_graves
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.model import AgentRecord, Record
from mngr.host import registry
from mngr.host.protocol import Host

ROLES = ("user", "assistant", "tool")
FIELDS = ("at", "role", "text", "tool", "input", "output", "model", "usage")
# Plain files only: an agent can put anything in their place.
_NAMES = """
cd "$1" || exit 0
shift
set -- $*
for name; do
    if [ -f "$name" ] && ! [ -L "$name" ]; then printf '%s\\n' "$name"; fi
done
"""
_READ = """
cd "$1" || exit 0
shift
ls -tr -d $* 2>/dev/null | while IFS= read -r name; do
    if [ -f "$name" ] && ! [ -L "$name" ]; then cat "$name" && echo; fi
done
"""


class Kept(Record):
    """Where a conversation lies: with its agent, or in the graveyard."""

    host: Host
    record: AgentRecord
    directory: str
    is_over: bool = False


def read_transcript(ctx: Context, name: str) -> list[dict[str, Any]]:
    """Every row so far, also of an agent that was destroyed; MngrError when its kind keeps none."""
    return read_rows(ctx, find_kept(ctx, name))


def find_kept(ctx: Context, name: str) -> Kept:
    """The conversation of an agent, the last destroyed one when none has this name now; raises NotFound."""
    try:
        host, record = find.find(ctx, name)
    except NotFound:
        for grave in reversed(list_graves(ctx)):
            if name in (grave.id, grave.name) and grave.problem is None:
                return keep_of_grave(ctx, grave)
        raise
    return Kept(host=host, record=record, directory=host.home.agent(record.id))


def keep_of_grave(ctx: Context, grave: Grave) -> Kept:
    """The conversation of a destroyed agent."""
    record = AgentRecord(**grave.meta["record"])
    return Kept(host=ctx.local, record=record, directory=os.path.join(grave.place, "agent"), is_over=True)


def read_rows(ctx: Context, kept: Kept) -> list[dict[str, Any]]:
    """Every row of a conversation so far; MngrError when its kind keeps none."""
    patterns = _patterns(ctx, kept.record)
    out = kept.host.run(["sh", "-c", _READ, "read", kept.directory, *patterns]).out
    found = ctx.kind_of(kept.record).parse(out.split(b"\n"))
    return [row for one in found if (row := _checked(one))]


def follow_transcript(ctx: Context, name: str) -> Iterator[dict[str, Any]]:
    """Every row so far and then as they come, until the agent is destroyed."""
    kept = find_kept(ctx, name)
    if kept.is_over:
        yield from read_rows(ctx, kept)
        return
    host, record = kept.host, kept.record
    tails = Tails()
    try:
        for row in ctx.kind_of(record).parse(_follow(ctx, host, record, tails)):
            checked = _checked(row)
            if checked:
                yield checked
    finally:
        tails.close()


def _is_there(ctx: Context, host: Host, record: AgentRecord) -> bool:
    """Whether the agent is still there; not when it went with its host."""
    try:
        return host.has(host.home.agent(record.id))
    except Unreachable:
        if not registry.is_gone(ctx.home, host.provider, host.name):
            raise
        return False


def _follow(ctx: Context, host: Host, record: AgentRecord, tails: Tails) -> Iterator[bytes]:
    """Lines as they come, also of files that come later, until the agent is destroyed."""
    known: set[str] = set()
    patterns = _patterns(ctx, record)

    def add(names: list[str]) -> None:
        for name in names:
            if name not in known:
                known.add(name)
                tails.add(Tail(host, [os.path.join(host.home.agent(record.id), name)]))

    def look() -> None:
        found = host.run(["sh", "-c", _NAMES, "names", host.home.agent(record.id), *patterns]).text
        add(found.splitlines())

    add([pattern for pattern in patterns if "*" not in pattern])
    look()
    for lines in every_second(tails):
        yield from lines
        if not lines:
            if not _is_there(ctx, host, record):
                return
            look()


def _patterns(ctx: Context, record: AgentRecord) -> tuple[str, ...]:
    patterns = ctx.kind_of(record).conversation
    if not patterns:
        raise MngrError(
            f"{record.name} is of kind {record.kind}, which keeps no transcript",
            f"see its screen: mngr capture {record.name}",
        )
    return patterns


def _checked(row: dict[str, Any]) -> dict[str, Any] | None:
    """A row of our schema; whatever else an agent may have written there is left out."""
    if row.get("role") not in ROLES or not isinstance(row.get("text"), str):
        return None
    return {"v": 1, **{field: row.get(field) for field in FIELDS}}
