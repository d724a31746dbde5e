"""Converts Gemini CLI's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.kinds.coding_agent import parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_CONTEXT_PREFIX = "<session_context>"  # the start of a message that it writes again after a cancelled turn
_FINAL_STATUSES = ("success", "error", "cancelled")
_USAGE_FIELDS = {"input": "input_tokens", "output": "output_tokens", "cached": "cache_read_tokens"}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows as they become complete.

    Gemini CLI writes a row again after its tools have run and after the conversation is resumed.
    """
    seen_ids: set[str] = set()
    for row in parse_rows(lines):
        row_id, at = row.get("id"), row.get("timestamp")
        if not isinstance(row_id, str):
            continue
        is_new = row_id not in seen_ids
        seen_ids.add(row_id)
        if row.get("type") == "user" and is_new:
            text = _join_text(row.get("content"))
            if text and not text.startswith(_CONTEXT_PREFIX):
                yield {"at": at, "role": "user", "text": text}
        elif row.get("type") == "error" and is_new:
            yield {"at": at, "role": "assistant", "text": _join_text(row.get("content"))}
        elif row.get("type") == "gemini":
            yield from _parse_answer(row, is_new, seen_ids)


def _parse_answer(row: dict[str, Any], is_new: bool, seen_ids: set[str]) -> Iterator[dict[str, Any]]:
    base = {"at": row.get("timestamp"), "model": row.get("model")}
    if is_new:
        text, usage = _join_text(row.get("content")), _parse_usage(row.get("tokens"))
        if text or usage:
            yield {**base, "role": "assistant", "text": text, "usage": usage}
    calls = row.get("toolCalls")
    for call in calls if isinstance(calls, list) else []:
        if not isinstance(call, dict) or call.get("status") not in _FINAL_STATUSES or str(call.get("id")) in seen_ids:
            continue
        seen_ids.add(str(call.get("id")))
        call_fields = {
            "tool": call.get("name"),
            "input": call.get("args"),
            "output": _parse_output(call.get("result")),
        }
        yield {**base, "at": call.get("timestamp") or base["at"], "role": "tool", "text": "", **call_fields}


def _join_text(content: object) -> str:
    """Return the text of a message for people; results of tools have no text part and are skipped."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _parse_output(result: object) -> str:
    outputs: list[str] = []
    for part in result if isinstance(result, list) else []:
        response = part.get("functionResponse") if isinstance(part, dict) else None
        output = response.get("response") if isinstance(response, dict) else None
        if isinstance(output, dict):
            outputs.append(str(output.get("output", output.get("error", ""))))
    return "\n".join(outputs)


def _parse_usage(tokens: object) -> dict[str, Any] | None:
    """Return the token counts. Cached tokens are subtracted from the input, and thoughts are added to the output."""
    if not isinstance(tokens, dict):
        return None
    counts = {target: tokens[source] for source, target in _USAGE_FIELDS.items() if isinstance(tokens.get(source), int)}
    if not any(counts.values()):
        return None
    if isinstance(tokens.get("thoughts"), int):
        counts["output_tokens"] = counts.get("output_tokens", 0) + tokens["thoughts"]
    counts["input_tokens"] = max(0, counts.get("input_tokens", 0) - counts.get("cache_read_tokens", 0))
    return counts
