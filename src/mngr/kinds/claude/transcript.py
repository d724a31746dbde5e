"""Converts Claude Code's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.base import clock
from mngr.kinds.coding_agent import parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_MAX_ROW_DELAY = 5.0  # seconds after which a missing row is no longer expected


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows that are complete; a tool's call and its result are one row. Internal rows are skipped.

    Sub-agents have their own files. Their usage appears in the order of time.
    """
    calls: dict[str, dict[str, Any]] = {}
    counted: set[str] = set()
    subagent_rows: list[dict[str, Any]] = []
    for row in _order_rows(parse_rows(lines)):
        message = row.get("message")
        if row.get("isSidechain"):
            subagent_rows += _parse_subagent_usage(message, row.get("timestamp"), counted)
            continue
        ready = [usage_row for usage_row in subagent_rows if str(usage_row["at"]) <= str(row.get("timestamp") or "")]
        subagent_rows = [usage_row for usage_row in subagent_rows if usage_row not in ready]
        yield from ready
        attachment = row.get("attachment")
        if isinstance(attachment, dict) and attachment.get("type") == "queued_command":
            yield from _parse_user(
                {"content": attachment.get("prompt")}, row.get("timestamp"), calls
            )  # a message sent during a turn
            continue
        if row.get("isMeta") or not isinstance(message, dict):
            continue
        if message.get("model") == "<synthetic>" and not row.get("isApiErrorMessage"):
            continue  # a filler row that Claude itself writes
        at = row.get("timestamp")
        if row.get("type") == "assistant":
            yield from _parse_assistant(message, at, calls, counted)
        elif row.get("type") == "user":
            yield from _parse_user(message, at, calls)
    yield from subagent_rows
    yield from calls.values()


def _order_rows(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each row after its parent: on a busy machine Claude may write an answer before its question."""
    yielded_ids = {"None"}
    waiting: list[dict[str, Any]] = []
    for row in rows:
        if row.get("isSidechain"):
            yield row
            continue
        if waiting and _parse_time(row) - _parse_time(waiting[0]) > _MAX_ROW_DELAY:
            yielded_ids.update(str(candidate.get("uuid")) for candidate in waiting)
            yield from waiting
            waiting.clear()
        waiting.append(row)
        while ready := [candidate for candidate in waiting if str(candidate.get("parentUuid")) in yielded_ids][:1]:
            yielded_ids.add(str(ready[0].get("uuid")))
            waiting.remove(ready[0])
            yield ready[0]
    yield from waiting


def _parse_time(row: dict[str, Any]) -> float:
    try:
        return clock.parse_timestamp(str(row.get("timestamp")))
    except ValueError:
        return 0.0


def _parse_subagent_usage(message: object, at: object, counted: set[str]) -> list[dict[str, Any]]:
    """Return one row with the usage of a sub-agent's answer, or no row if it is counted already."""
    usage = _parse_usage(message.get("usage")) if isinstance(message, dict) else None
    if not isinstance(message, dict) or usage is None or str(message.get("id")) in counted:
        return []
    counted.add(str(message.get("id")))
    return [
        {
            "at": at,
            "role": "tool",
            "text": "",
            "tool": "sub-agent",
            "model": message.get("model"),
            "usage": usage,
        }
    ]


def _parse_assistant(
    message: dict[str, Any], at: object, calls: dict[str, dict[str, Any]], counted: set[str]
) -> Iterator[dict[str, Any]]:
    message_id = str(message.get("id"))
    usage = (
        None if message_id in counted else _parse_usage(message.get("usage"))
    )  # each part of an answer repeats the usage
    counted.add(message_id)
    model = message.get("model")
    for part in _list_parts(message.get("content")):
        base = {"at": at, "model": model, "usage": usage}
        if part.get("type") == "text" and str(part.get("text", "")).strip():
            yield {**base, "role": "assistant", "text": str(part["text"])}
            usage = None
        elif part.get("type") == "tool_use":
            call = {**base, "role": "tool", "text": "", "tool": part.get("name"), "input": part.get("input")}
            calls[str(part.get("id"))] = call
            usage = None
    if usage:  # the answer holds only thoughts
        yield {"at": at, "model": model, "usage": usage, "role": "assistant", "text": ""}


def _parse_user(message: dict[str, Any], at: object, calls: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    texts: list[str] = []
    for part in _list_parts(message.get("content")):
        if part.get("type") == "tool_result":
            call = calls.pop(str(part.get("tool_use_id")), None)
            if call is not None:
                yield {**call, "output": _join_text(part.get("content"))}
        elif part.get("type") == "text":
            texts.append(str(part.get("text", "")))
    if texts:
        yield {"at": at, "role": "user", "text": "\n".join(texts)}


def _list_parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _join_text(content: object) -> str:
    return "\n".join(str(part.get("text", "")) for part in _list_parts(content))


def _parse_usage(usage: object) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "cache_read_input_tokens": "cache_read_tokens",
        "cache_creation_input_tokens": "cache_write_tokens",
    }
    counts = {target: usage[source] for source, target in names.items() if isinstance(usage.get(source), int)}
    if not any(counts.values()):
        return None
    cache_writes = usage.get("cache_creation")
    one_hour_tokens = cache_writes.get("ephemeral_1h_input_tokens") if isinstance(cache_writes, dict) else None
    extra: dict[str, Any] = (
        {"cache_write_1h_tokens": one_hour_tokens} if isinstance(one_hour_tokens, int) and one_hour_tokens else {}
    )
    if usage.get("speed") == "fast" or usage.get("inference_geo") == "us":
        extra["other_price"] = True
    return {**counts, **extra}
