"""pi's own record of a conversation, in our schema."""

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
    """Rows as they are complete: a tool's call and its result are one."""
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
            what = {"tool": part.get("name"), "input": part.get("arguments")}
            calls[str(part.get("id"))] = {**base, "role": "tool", "text": "", **what}


def _list_parts(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _join_text(content: object) -> str:
    return "".join(str(part.get("text", "")) for part in _list_parts(content) if part.get("type") == "text")


def _parse_usage(found: object) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    counts = {ours: found[theirs] for theirs, ours in _USAGE_FIELDS.items() if isinstance(found.get(theirs), int)}
    if not any(counts.values()):
        return None
    cost = found.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    # 0 is a price it does not know.
    return {**counts, "cost_usd": total} if isinstance(total, int | float) and total > 0 else counts
