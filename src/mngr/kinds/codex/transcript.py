"""Converts Codex's own record of a conversation to mngr's schema, and reads from it how a turn ended."""

from __future__ import annotations

import re

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_objects, find_text, get_int, get_object, get_text, parse_json
from mngr.kinds import limit_resets
from mngr.kinds.agent_state import parse_row_time
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry, parse_json_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mngr.base.untrusted_json import JsonObject

_CALL_TYPES = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")
_STATUS_REASONS = {
    401: "login",
    402: "quota",
    403: "login",
    429: "rate_limit",
    503: "rate_limit",
    529: "rate_limit",
}
_ERROR_REASONS = {
    "usage_limit_exceeded": "quota",
    "session_budget_exceeded": "quota",
    "rate_limit_exceeded": "rate_limit",
    "server_overloaded": "rate_limit",
    "unauthorized": "login",
}
_UNEXPECTED_STATUS = re.compile(r"unexpected status (\d{3}) ")


class FailedTurn(Struct):
    """A turn that failed or was aborted. `reason` and `until` are set when the agent is parked."""

    at: str
    message: str  # Codex's own text
    reason: str | None = None
    until: str | None = None


def find_failed_turn(row: JsonObject | None) -> FailedTurn | None:
    """Return the failed or aborted turn that a row of the record describes, or None."""
    row = row or {}
    payload = row.get("payload")
    at = parse_row_time({"at": row.get("timestamp")})
    if not isinstance(payload, dict) or at is None:
        return None
    error = payload.get("error")
    if not isinstance(error, dict):
        return FailedTurn(at=at, message=_shorten_error(payload.get("reason")))
    message = error.get("message")
    reason = _find_park_reason(error)
    reset = limit_resets.find_reset(str(message)) if reason == "quota" else None
    until = None
    if reset is not None:
        until = limit_resets.parse_reset(reset, at, 0.0, str(row.get("zone") or "+0000"))
    shown_error = _shorten_error(message or error.get("codex_error_info"))
    return FailedTurn(at=at, message=shown_error, reason=reason, until=until)


def _find_park_reason(error: JsonObject) -> str | None:
    """Return the reason for PARKED that the error of a turn means, or None."""
    info = error.get("codex_error_info")
    if isinstance(info, dict):
        codes = [part.get("http_status_code") for part in as_objects(list(info.values()))]
        reasons = [_STATUS_REASONS[code] for code in codes if isinstance(code, int) and code in _STATUS_REASONS]
        return reasons[0] if reasons else None
    if info == "other":  # Codex 0.150
        match = _UNEXPECTED_STATUS.match(str(error.get("message")))
        return _STATUS_REASONS.get(int(match[1])) if match else None
    return _ERROR_REASONS.get(info) if isinstance(info, str) else None


def _shorten_error(error: object) -> str:
    return " ".join(str(error).split())[:200]


def parse_hook_keys(answer: bytes) -> list[str] | None:
    """Return the keys of all hooks except the agent's own from the answer to `hooks/list`.

    None means that the answer is not valid.
    """
    try:
        entries = parse_json(answer)["result"]["data"]
        hooks = [hook for entry in entries for hook in entry["hooks"]]
        return [str(hook["key"]) for hook in hooks if hook["source"] != "user"]
    except (ValueError, LookupError, TypeError):
        return None


class _PendingEntry:
    """An entry that may still get its output and its usage."""

    def __init__(self, entry: TranscriptEntry) -> None:
        self.entry = entry


class _EntryBuilder:
    """Builds entries: a call and its result are one entry, and the usage of a response goes to its last part."""

    def __init__(self) -> None:
        self.model: str | None = None
        self.models_by_turn: dict[str, str | None] = {}  # of sub-agents
        self.tier: object = None  # the service tier, which affects the price
        self.has_usage_records = False  # True for newer versions, which also write the older token_count rows
        self.total: object = None  # the last total, because token_count rows are repeated
        self.calls: dict[str, _PendingEntry] = {}
        self.ready: list[_PendingEntry] = []
        self.uncounted: _PendingEntry | None = None  # gets the usage of the current response

    def release_complete(self) -> Iterator[TranscriptEntry]:
        """Yield the complete entries, unless one of them still waits for its usage."""
        if self.uncounted is None:
            yield from (pending.entry for pending in self.ready)
            self.ready = []

    def release_all(self) -> Iterator[TranscriptEntry]:
        """Yield all entries, even incomplete ones."""
        self.uncounted = None
        self.ready += self.calls.values()
        self.calls = {}
        yield from self.release_complete()

    def add_row(self, row: JsonObject) -> Iterator[TranscriptEntry]:
        payload = row.get("payload")
        if not isinstance(payload, dict):
            return
        row_type, at = row.get("type"), find_text(row, "timestamp")
        if row_type == "turn_context":
            self._add_turn(payload)
        elif row_type == "token_usage_record":
            yield from self._add_usage_record(payload, at)
        elif row_type == "event_msg":
            yield from self._add_event(payload, at)
        elif row_type == "response_item":
            self._add_item(payload, at)
        yield from self.release_complete()

    def _add_turn(self, payload: JsonObject) -> None:
        turn, model = payload.get("turn_id"), find_text(payload, "model")
        if payload.get("root_turn_id", turn) == turn:
            self.model = model
        elif isinstance(turn, str):
            self.models_by_turn[turn] = model

    def _add_usage_record(self, payload: JsonObject, at: str | None) -> Iterator[TranscriptEntry]:
        """Count a response. Of a sub-agent's response only the usage is known, so it is an entry itself."""
        self.has_usage_records = True
        usage = get_object(payload, "usage")
        if payload.get("thread_id") == payload.get("session_id"):
            self._add_usage(usage)
            return
        yield TranscriptEntry(
            at=at,
            role="tool",
            tool="sub-agent",
            input={"thread": payload.get("thread_id")},
            model=self.models_by_turn.get(get_text(payload, "turn_id"), self.model),
            usage=self._find_usage(usage),
        )

    def _add_event(self, payload: JsonObject, at: str | None) -> Iterator[TranscriptEntry]:
        event_type = payload.get("type")
        if event_type == "user_message":
            self._add_user_message(find_text(payload, "message"), at)
        elif event_type == "item_completed":
            item = get_object(payload, "item")
            if item.get("type") == "UserMessage":
                self._add_user_message(_join_text(item.get("content")), at)
        elif event_type == "thread_settings_applied":
            self.tier = get_object(payload, "thread_settings").get("service_tier")
        elif event_type == "token_count" and not self.has_usage_records:
            self._add_token_count(get_object(payload, "info"))
        elif event_type in ("task_complete", "turn_aborted"):
            yield from self.release_all()

    def _add_user_message(self, text: str | None, at: str | None) -> None:
        if text is not None:
            self.ready.append(_PendingEntry(TranscriptEntry(at=at, role="user", text=text)))

    def _add_token_count(self, info: JsonObject) -> None:
        if info and info.get("total_token_usage") != self.total:
            self.total = info.get("total_token_usage")
            self._add_usage(get_object(info, "last_token_usage"))

    def _add_item(self, payload: JsonObject, at: str | None) -> None:
        item_type = payload.get("type")
        call_id = str(payload.get("call_id") or payload.get("id"))
        if item_type == "message" and payload.get("role") == "assistant":
            text = _join_text(payload.get("content"))
            self.uncounted = _PendingEntry(TranscriptEntry(at=at, role="assistant", text=text, model=self.model))
            self.ready.append(self.uncounted)
        elif item_type in _CALL_TYPES:
            tool = get_text(payload, "name") or "shell"
            raw_input = payload.get("arguments") or payload.get("input") or payload.get("action")
            call = TranscriptEntry(at=at, role="tool", tool=tool, input=_decode_input(raw_input), model=self.model)
            self.uncounted = self.calls[call_id] = _PendingEntry(call)
        elif item_type in _OUTPUT_TYPES and call_id in self.calls:
            pending = self.calls.pop(call_id)
            pending.entry = pending.entry.replace(output=_parse_output(payload.get("output")))
            self.ready.append(pending)

    def _add_usage(self, row: JsonObject) -> None:
        if self.uncounted is not None:
            self.uncounted.entry = self.uncounted.entry.replace(usage=self._find_usage(row))
        self.uncounted = None

    def _find_usage(self, row: JsonObject) -> TokenUsage | None:
        """Return the token counts, or None when all are zero. Cached tokens are not counted as input again."""
        cache_read_tokens = get_int(row, "cached_input_tokens")
        cache_write_tokens = get_int(row, "cache_write_input_tokens")
        usage = TokenUsage(
            input_tokens=max(0, get_int(row, "input_tokens") - cache_read_tokens - cache_write_tokens),
            output_tokens=get_int(row, "output_tokens"),
            cache_read_tokens=cache_read_tokens,
            cache_write_tokens=cache_write_tokens,
            other_price=self.tier not in (None, "default", "auto"),
        )
        return usage if usage.total_tokens else None


def parse(lines: Iterable[bytes]) -> Iterator[TranscriptEntry]:
    """Yield the entries as they become complete. Internal rows are skipped."""
    builder = _EntryBuilder()
    for row in parse_json_lines(lines):
        yield from builder.add_row(row)
    yield from builder.release_all()


def _join_text(content: object) -> str:
    return "\n".join(get_text(part, "text") for part in as_objects(content) if "text" in part)


def _decode_input(tool_input: object) -> object:
    """Return a tool's input; most calls hold it as JSON in a text."""
    if not isinstance(tool_input, str):
        return tool_input
    try:
        decoded = parse_json(tool_input)
    except ValueError:
        return {"input": tool_input}
    return decoded if isinstance(decoded, dict) else {"input": tool_input}


def _parse_output(output: object) -> str:
    if isinstance(output, dict):
        output = output.get("content")
    return output if isinstance(output, str) else _join_text(output)
