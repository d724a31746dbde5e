"""Converts Claude Code's own record of a conversation to mngr's schema."""

from __future__ import annotations

from mngr.base import time_format
from mngr.base.untrusted_json import as_objects, find_int, find_text, get_object, get_text
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry, parse_json_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.untrusted_json import JsonObject

_MAX_ROW_DELAY = 5.0  # seconds after which a missing row is no longer expected
_MAX_WAITING_ROWS = 100  # Without a limit, the time would grow with the square of the number of rows.


def parse(lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
    """Yield the entries that are complete. Internal rows are skipped.

    Sub-agents have their own files. Their usage appears in the order of time.
    """
    builder = _EntryBuilder()
    for row in _order_rows(parse_json_lines(lines)):
        yield from builder.add_row(row)
    yield from builder.subagent_entries
    yield from builder.calls.values()


def _order_rows(rows: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield each row after its parent: on a busy machine Claude may write an answer before its question."""
    yielded_ids = {"None"}
    waiting: list[JsonObject] = []
    for row in rows:
        if row.get("isSidechain"):
            yield row
            continue
        is_late = waiting and _parse_time(row) - _parse_time(waiting[0]) > _MAX_ROW_DELAY
        if is_late or len(waiting) >= _MAX_WAITING_ROWS:
            yielded_ids.update(str(candidate.get("uuid")) for candidate in waiting)
            yield from waiting
            waiting.clear()
        waiting.append(row)
        while ready := [candidate for candidate in waiting if str(candidate.get("parentUuid")) in yielded_ids][:1]:
            yielded_ids.add(str(ready[0].get("uuid")))
            waiting.remove(ready[0])
            yield ready[0]
    yield from waiting


def _parse_time(row: JsonObject) -> float:
    try:
        return time_format.parse_timestamp(str(row.get("timestamp")))
    except ValueError:
        return 0.0


class _EntryBuilder:
    """Builds entries: a tool's call and its result are one entry, and the usage of an answer is counted once."""

    def __init__(self) -> None:
        self.calls: dict[str, TranscriptEntry] = {}  # without a result so far
        self.subagent_entries: list[TranscriptEntry] = []
        self.counted_ids: set[str] = set()

    def add_row(self, row: JsonObject) -> Iterator[TranscriptEntry]:
        at = find_text(row, "timestamp")
        message = get_object(row, "message")
        if row.get("isSidechain"):
            self._add_subagent_answer(message, at)
            return
        yield from self._release_subagent_entries(at)
        attachment = get_object(row, "attachment")
        if attachment.get("type") == "queued_command":  # a message sent during a turn
            yield from self._add_user_message(attachment.get("prompt"), at)
        elif _is_internal(row):
            return
        elif row.get("type") == "assistant":
            yield from self._add_answer(message, at)
        elif row.get("type") == "user":
            yield from self._add_user_message(message.get("content"), at)

    def _add_subagent_answer(self, message: JsonObject, at: str | None) -> None:
        """Add the usage of a sub-agent's answer, of which the conversation shows nothing else."""
        usage = self._find_uncounted_usage(message)
        if usage is not None:
            model = find_text(message, "model")
            entry = TranscriptEntry(at=at, role="tool", tool="sub-agent", model=model, usage=usage)
            self.subagent_entries.append(entry)

    def _release_subagent_entries(self, at: str | None) -> Iterator[TranscriptEntry]:
        """Yield the usage of sub-agents until this time."""
        entries = self.subagent_entries
        ready = [entry for entry in entries if str(entry.at) <= (at or "")]
        self.subagent_entries = [entry for entry in entries if entry not in ready]
        yield from ready

    def _find_uncounted_usage(self, message: JsonObject) -> TokenUsage | None:
        """Return the usage of an answer, or None when an earlier part of the same answer had it."""
        message_id = str(message.get("id"))
        usage = _find_usage(get_object(message, "usage"))
        if usage is None or message_id in self.counted_ids:
            return None
        self.counted_ids.add(message_id)
        return usage

    def _add_answer(self, message: JsonObject, at: str | None) -> Iterator[TranscriptEntry]:
        usage = self._find_uncounted_usage(message)
        self.counted_ids.add(str(message.get("id")))
        model = find_text(message, "model")
        for part in _list_parts(message.get("content")):
            text = get_text(part, "text")
            if part.get("type") == "text" and text.strip():
                yield TranscriptEntry(at=at, role="assistant", text=text, model=model, usage=usage)
                usage = None
            elif part.get("type") == "tool_use":
                tool, tool_input = find_text(part, "name"), part.get("input")
                call = TranscriptEntry(at=at, role="tool", tool=tool, input=tool_input, model=model, usage=usage)
                self.calls[str(part.get("id"))] = call
                usage = None
        if usage is not None:  # the answer holds only thoughts
            yield TranscriptEntry(at=at, role="assistant", model=model, usage=usage)

    def _add_user_message(self, content: object, at: str | None) -> Iterator[TranscriptEntry]:
        parts = _list_parts(content)
        for part in parts:
            call = self.calls.pop(str(part.get("tool_use_id")), None) if part.get("type") == "tool_result" else None
            if call is not None:
                yield call.replace(output=_join_text(_list_parts(part.get("content"))))
        texts = [part for part in parts if part.get("type") == "text"]
        if texts:
            yield TranscriptEntry(at=at, role="user", text=_join_text(texts))


def _is_internal(row: JsonObject) -> bool:
    """True for a row that is not a part of the conversation, such as a filler row that Claude itself writes."""
    message = row.get("message")
    if row.get("isMeta") or not isinstance(message, dict):
        return True
    return message.get("model") == "<synthetic>" and not row.get("isApiErrorMessage")


def _list_parts(content: object) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_objects(content)


def _join_text(parts: list[JsonObject]) -> str:
    return "\n".join(get_text(part, "text") for part in parts)


def _find_usage(row: JsonObject) -> TokenUsage | None:
    """Return the token counts, or None when all are zero."""
    usage = TokenUsage(
        input_tokens=find_int(row, "input_tokens"),
        output_tokens=find_int(row, "output_tokens"),
        cache_read_tokens=find_int(row, "cache_read_input_tokens"),
        cache_write_tokens=find_int(row, "cache_creation_input_tokens"),
        cache_write_1h_tokens=find_int(get_object(row, "cache_creation"), "ephemeral_1h_input_tokens") or None,
        other_price=row.get("speed") == "fast" or row.get("inference_geo") == "us",
    )
    return usage if usage.total_tokens else None
