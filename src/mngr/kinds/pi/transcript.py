"""Converts pi's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.kinds.coding_agent import format_milliseconds, parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_USAGE_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows as they become complete; a tool's call and its result are one row."""
    calls: dict[str, dict[str, Any]] = {}
    for row in parse_rows(lines):
        message = row.get("message")
        if row.get("type") != "message" or not isinstance(message, dict):
            continue
        at = format_milliseconds(message.get("timestamp")) or row.get("timestamp")
        content = message.get("content")
        if message.get("role") == "user":
            yield {"at": at, "role": "user", "text": _join_text(content)}
        elif message.get("role") == "toolResult":
            call = calls.pop(str(message.get("toolCallId")), None)
            if call is not None:
                yield {**call, "output": _join_text(content)}
        elif message.get("role") == "assistant":
            yield from _parse_answer(message, at, calls)
    yield from calls.values()


def _parse_answer(message: dict[str, Any], at: object, calls: dict[str, dict[str, Any]]) -> Iterator[dict[str, Any]]:
    base = {"at": at, "model": message.get("model")}
    text, usage = _join_text(message.get("content")), _parse_usage(message.get("usage"))
    if message.get("errorMessage"):
        text = f"{text}\n{message['errorMessage']}".strip()
    if text or usage:
        yield {**base, "role": "assistant", "text": text, "usage": usage}
    for part in _list_parts(message.get("content")):
        if part.get("type") == "toolCall":
            call_fields = {"tool": part.get("name"), "input": part.get("arguments")}
            calls[str(part.get("id"))] = {**base, "role": "tool", "text": "", **call_fields}


def _list_parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _join_text(content: object) -> str:
    return "".join(str(part.get("text", "")) for part in _list_parts(content) if part.get("type") == "text")


def _parse_usage(usage: object) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    counts = {target: usage[source] for source, target in _USAGE_FIELDS.items() if isinstance(usage.get(source), int)}
    if not any(counts.values()):
        return None
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    # A cost of 0 means that pi does not know the price.
    return {**counts, "cost_usd": total} if isinstance(total, int | float) and total > 0 else counts
