"""Gemini CLI's own record of a conversation, in our schema."""

from __future__ import annotations

from mngr.kinds.coding_agent import parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_CONTEXT_PREFIX = "<session_context>"  # how a message begins that it writes anew when a turn was cut off
_FINAL_STATUSES = ("success", "error", "cancelled")
_USAGE_FIELDS = {"input": "input_tokens", "output": "output_tokens", "cached": "cache_read_tokens"}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Rows as they are complete. A row of the record is written again when its tools have run, and when it is resumed."""
    seen: set[str] = set()
    for row in parse_rows(lines):
        name, at = row.get("id"), row.get("timestamp")
        if not isinstance(name, str):
            continue
        is_new = name not in seen
        seen.add(name)
        if row.get("type") == "user" and is_new:
            text = _join_text(row.get("content"))
            if text and not text.startswith(_CONTEXT_PREFIX):
                yield {"at": at, "role": "user", "text": text}
        elif row.get("type") == "error" and is_new:
            yield {"at": at, "role": "assistant", "text": _join_text(row.get("content"))}
        elif row.get("type") == "gemini":
            yield from _parse_answer(row, is_new, seen)


def _parse_answer(row: dict[str, Any], is_new: bool, seen: set[str]) -> Iterator[dict[str, Any]]:
    base = {"at": row.get("timestamp"), "model": row.get("model")}
    if is_new:
        text, usage = _join_text(row.get("content")), _parse_usage(row.get("tokens"))
        if text or usage:
            yield {**base, "role": "assistant", "text": text, "usage": usage}
    calls = row.get("toolCalls")
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict) or call.get("status") not in _FINAL_STATUSES or str(call.get("id")) in seen:
            continue
        seen.add(str(call.get("id")))
        what = {
            "tool": call.get("name"),
            "input": call.get("args"),
            "output": _parse_output(call.get("result")),
        }
        yield {**base, "at": call.get("timestamp") or base["at"], "role": "tool", "text": "", **what}


def _join_text(content: object) -> str:
    """What a person said or reads; answers of tools go the same way and are left out."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _parse_output(result: object) -> str:
    found: list[str] = []
    for part in result if isinstance(result, list) else []:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        said = response.get("response") if isinstance(response, dict) else None
        if isinstance(said, dict):
            found.append(str(said.get("output", said.get("error", ""))))
    return "\n".join(found)


def _parse_usage(found: object) -> dict[str, Any] | None:
    """`input` has the cached tokens in it, and thoughts are not in `output`."""
    if not isinstance(found, dict):
        return None
    counts = {ours: found[theirs] for theirs, ours in _USAGE_FIELDS.items() if isinstance(found.get(theirs), int)}
    if not any(counts.values()):
        return None
    if isinstance(found.get("thoughts"), int):
        counts["output_tokens"] = counts.get("output_tokens", 0) + found["thoughts"]
    counts["input_tokens"] = max(0, counts.get("input_tokens", 0) - counts.get("cache_read_tokens", 0))
    return counts
