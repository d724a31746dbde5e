"""Converts Gemini CLI's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.base.untrusted_json import as_objects, find_int, find_text, get_object, get_objects, get_text
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry, parse_json_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.untrusted_json import JsonObject

_CONTEXT_PREFIX = "<session_context>"  # the start of a message that it writes again after a cancelled turn
_FINAL_STATUSES = ("success", "error", "cancelled")


def parse(lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
    """Yield the entries as they become complete.

    Gemini CLI writes a row again after its tools have run and after the conversation is resumed.
    """
    seen_ids: set[str] = set()
    for row in parse_json_lines(lines):
        row_id = find_text(row, "id")
        if row_id is None:
            continue
        if row_id not in seen_ids:
            seen_ids.add(row_id)
            yield from _parse_message(row)
        calls = _list_complete_calls(row)
        for call in calls:
            call_id = str(call.get("id"))
            if call_id not in seen_ids:
                seen_ids.add(call_id)
                yield _parse_call(row, call)


def _parse_message(row: JsonObject) -> Iterator[TranscriptEntry]:
    """Yield the text that a row holds."""
    row_type, at = row.get("type"), find_text(row, "timestamp")
    text = _join_text(row.get("content"))
    if row_type == "user" and text and not text.startswith(_CONTEXT_PREFIX):
        yield TranscriptEntry(at=at, role="user", text=text)
    elif row_type == "error":
        yield TranscriptEntry(at=at, role="assistant", text=text)
    elif row_type == "gemini":
        usage = _find_usage(get_object(row, "tokens"))
        if text or usage:
            yield TranscriptEntry(at=at, role="assistant", text=text, model=find_text(row, "model"), usage=usage)


def _list_complete_calls(row: JsonObject) -> list[JsonObject]:
    if row.get("type") != "gemini":
        return []
    return [call for call in get_objects(row, "toolCalls") if call.get("status") in _FINAL_STATUSES]


def _parse_call(row: JsonObject, call: JsonObject) -> TranscriptEntry:
    return TranscriptEntry(
        at=find_text(call, "timestamp") or find_text(row, "timestamp"),
        role="tool",
        tool=find_text(call, "name"),
        input=call.get("args"),
        output=_join_output(call.get("result")),
        model=find_text(row, "model"),
    )


def _join_text(content: object) -> str:
    """Return the text of a message for people; results of tools have no text part and are skipped."""
    if isinstance(content, str):
        return content
    return "".join(get_text(part, "text") for part in as_objects(content))


def _join_output(result: object) -> str:
    responses = [get_object(part, "functionResponse").get("response") for part in as_objects(result)]
    outputs = [str(response.get("output", response.get("error", ""))) for response in as_objects(responses)]
    return "\n".join(outputs)


def _find_usage(row: JsonObject) -> TokenUsage | None:
    """Return the token counts. Cached tokens are subtracted from the input, and thoughts are added to the output."""
    cached = find_int(row, "cached")
    input_tokens, output_tokens = find_int(row, "input"), find_int(row, "output")
    if not (input_tokens or output_tokens or cached):
        return None
    thoughts = find_int(row, "thoughts")
    if thoughts is not None:
        output_tokens = (output_tokens or 0) + thoughts
    new_input_tokens = max(0, (input_tokens or 0) - (cached or 0))
    return TokenUsage(input_tokens=new_input_tokens, output_tokens=output_tokens, cache_read_tokens=cached)
