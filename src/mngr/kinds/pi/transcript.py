"""Converts pi's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.base.untrusted_json import as_objects, find_int, find_number, find_text, get_object, get_text
from mngr.kinds.coding_agent import format_milliseconds
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry, parse_json_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.untrusted_json import JsonObject


def parse(lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
    """Yield the entries as they become complete; a tool's call and its result are one entry."""
    calls: dict[str, TranscriptEntry] = {}
    for row in parse_json_lines(lines):
        message = row.get("message")
        if row.get("type") != "message" or not isinstance(message, dict):
            continue
        at = format_milliseconds(message.get("timestamp")) or find_text(row, "timestamp")
        text = _join_text(message.get("content"))
        role = message.get("role")
        if role == "user":
            yield TranscriptEntry(at=at, role="user", text=text)
        elif role == "toolResult":
            call = calls.pop(str(message.get("toolCallId")), None)
            if call is not None:
                yield call.replace(output=text)
        elif role == "assistant":
            yield from _parse_answer(message, at)
            calls.update(_parse_calls(message, at))
    yield from calls.values()


def _parse_answer(message: JsonObject, at: str | None) -> Iterator[TranscriptEntry]:
    """Yield the answer if it has a text, an error or usage."""
    text = _join_text(message.get("content"))
    error = message.get("errorMessage")
    if error:
        text = f"{text}\n{error}".strip()
    usage = _find_usage(get_object(message, "usage"))
    if text or usage:
        yield TranscriptEntry(at=at, role="assistant", text=text, model=find_text(message, "model"), usage=usage)


def _parse_calls(message: JsonObject, at: str | None) -> dict[str, TranscriptEntry]:
    """Return the tool calls of an answer by their id."""
    model = find_text(message, "model")
    parts = [part for part in as_objects(message.get("content")) if part.get("type") == "toolCall"]
    return {
        str(part.get("id")): TranscriptEntry(
            at=at, role="tool", tool=find_text(part, "name"), input=part.get("arguments"), model=model
        )
        for part in parts
    }


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(get_text(part, "text") for part in as_objects(content) if part.get("type") == "text")


def _find_usage(row: JsonObject) -> TokenUsage | None:
    """Return the token counts and the cost, or None when all counts are zero."""
    cost = find_number(get_object(row, "cost"), "total")
    usage = TokenUsage(
        input_tokens=find_int(row, "input"),
        output_tokens=find_int(row, "output"),
        cache_read_tokens=find_int(row, "cacheRead"),
        cache_write_tokens=find_int(row, "cacheWrite"),
        cost_usd=cost if cost and cost > 0 else None,  # A cost of 0 means that pi does not know the price.
    )
    return usage if usage.total_tokens else None
