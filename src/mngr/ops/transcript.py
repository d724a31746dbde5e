"""`transcript`: an agent's conversation, in one schema for all kinds."""

from __future__ import annotations

import json

from mngr import registry
from mngr.errors import MngrError, NotFound, Unreachable
from mngr.ops import find
from mngr.ops.tail import Tail, Tails, every_second

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mngr.host import Host
    from mngr.model import AgentRecord
    from mngr.ops.context import Context

ROLES = ("user", "assistant", "tool")
FIELDS = ("at", "role", "text", "tool", "input", "output", "model", "usage")


def read_transcript(ctx: Context, name: str) -> list[dict[str, Any]]:
    """Every row so far; MngrError when its kind keeps none."""
    host, record = find.find(ctx, name)
    try:
        data = host.read(_path(ctx, host, record))
    except NotFound:
        return []
    return [row for line in data.split(b"\n") if (row := _row(line))]


def follow_transcript(ctx: Context, name: str) -> Iterator[dict[str, Any]]:
    """Every row so far and then as they come, until the agent is destroyed."""
    host, record = find.find(ctx, name)
    tails = Tails()
    try:
        tails.add(Tail(host, [_path(ctx, host, record)]))
        for lines in every_second(tails):
            yield from (row for line in lines if (row := _row(line)))
            if not lines and not _is_there(ctx, host, record):
                return
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


def _path(ctx: Context, host: Host, record: AgentRecord) -> str:
    path = ctx.kind(record.kind).transcript(host, record)
    if path is None:
        raise MngrError(
            f"{record.name} is of kind {record.kind}, which keeps no transcript",
            f"see its screen: mngr capture {record.name}",
        )
    return path


def _row(line: bytes) -> dict[str, Any] | None:
    """A row of our schema; whatever else an agent may have written there is left out."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or row.get("role") not in ROLES or not isinstance(row.get("text"), str):
        return None
    return {"v": 1, **{field: row.get(field) for field in FIELDS}}
