"""Converts Codex's own record of a conversation to mngr's schema, and reads from it how a turn ended."""

from __future__ import annotations

import json
import re

from mngr.base.model import Struct
from mngr.kinds import limit_resets
from mngr.kinds.agent_state import parse_row_time
from mngr.kinds.coding_agent import parse_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

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


def find_failed_turn(row: dict[str, Any] | None) -> FailedTurn | None:
    """Return the failed or aborted turn that a row of the record describes, or None."""
    payload = (row or {}).get("payload")
    at = parse_row_time({"at": (row or {}).get("timestamp")})
    if not isinstance(payload, dict) or at is None:
        return None
    error = payload.get("error")
    if not isinstance(error, dict):
        return FailedTurn(at=at, message=_shorten_error(payload.get("reason")))
    info = error.get("codex_error_info")
    reason = _ERROR_REASONS.get(info) if isinstance(info, str) else None
    if isinstance(info, dict):
        codes = [part.get("http_status_code") for part in info.values() if isinstance(part, dict)]
        reason = next(
            (_STATUS_REASONS[code] for code in codes if isinstance(code, int) and code in _STATUS_REASONS),
            None,
        )
    elif info == "other" and (match := _UNEXPECTED_STATUS.match(str(error.get("message")))):
        reason = _STATUS_REASONS.get(int(match[1]))  # Codex 0.150
    until = None
    if reason == "quota" and (reset := limit_resets.find_reset(str(error.get("message")))):
        until = limit_resets.parse_reset(reset, at, 0.0, str((row or {}).get("zone") or "+0000"))
    return FailedTurn(at=at, message=_shorten_error(error.get("message") or info), reason=reason, until=until)


def _shorten_error(error: object) -> str:
    return " ".join(str(error).split())[:200]


def parse_hook_keys(answer: bytes) -> list[str] | None:
    """Return the keys of all hooks except the agent's own from the answer to `hooks/list`.

    None means that the answer is not valid.
    """
    try:
        entries = json.loads(answer)["result"]["data"]
        return [str(hook["key"]) for entry in entries for hook in entry["hooks"] if hook["source"] != "user"]
    except (ValueError, LookupError, TypeError):
        return None


class _RowBuilder:
    """Builds rows: a call and its result are one row, and the usage of a response goes to its last part."""

    def __init__(self) -> None:
        self.model: object = None
        self.models: dict[object, object] = {}  # by turn of a sub-agent
        self.tier: object = None  # the service tier, which affects the price
        self.counts_responses = False  # True for newer versions, which also write the older token_count rows
        self.total: object = None  # the last total, because token_count rows are repeated
        self.calls: dict[str, dict[str, Any]] = {}
        self.ready: list[dict[str, Any]] = []
        self.uncounted: dict[str, Any] | None = None  # the row that gets the usage of the current response

    def release_complete(self) -> Iterator[dict[str, Any]]:
        """Yield the complete rows, unless one of them still waits for its usage."""
        if self.uncounted is None:
            yield from self.ready
            self.ready = []

    def release_all(self) -> Iterator[dict[str, Any]]:
        """Yield all rows, even incomplete ones."""
        self.uncounted = None
        self.ready += self.calls.values()
        self.calls = {}
        yield from self.release_complete()

    def add_row(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        payload = row.get("payload")
        if not isinstance(payload, dict):
            return
        row_type, at = row.get("type"), row.get("timestamp")
        turn = payload.get("turn_id")
        if row_type == "turn_context":
            if payload.get("root_turn_id", turn) == turn:
                self.model = payload.get("model")
            elif isinstance(turn, str):
                self.models[turn] = payload.get("model")
        elif row_type == "token_usage_record":
            self.counts_responses = True
            if payload.get("thread_id") == payload.get("session_id"):
                self.add_usage(payload.get("usage"))
            else:
                yield self.build_subagent_row(payload, at, self.models.get(str(turn), self.model))
        elif row_type == "event_msg":
            yield from self.add_event(payload, at)
        elif row_type == "response_item":
            self.add_item(payload, at)
        yield from self.release_complete()

    def add_event(self, payload: dict[str, Any], at: object) -> Iterator[dict[str, Any]]:
        event_type = payload.get("type")
        text = None
        if event_type == "user_message":
            text = payload.get("message")
        elif event_type == "item_completed":
            item = payload.get("item")
            if isinstance(item, dict) and item.get("type") == "UserMessage":
                text = _join_text(item.get("content"))
        elif event_type == "thread_settings_applied":
            settings = payload.get("thread_settings")
            self.tier = settings.get("service_tier") if isinstance(settings, dict) else None
        elif event_type == "token_count" and not self.counts_responses:
            info = payload.get("info")
            if isinstance(info, dict) and info.get("total_token_usage") != self.total:
                self.total = info.get("total_token_usage")
                self.add_usage(info.get("last_token_usage"))
        elif event_type in ("task_complete", "turn_aborted"):
            yield from self.release_all()
        if isinstance(text, str):
            self.ready.append({"at": at, "role": "user", "text": text})

    def add_item(self, payload: dict[str, Any], at: object) -> None:
        item_type = payload.get("type")
        call_id = str(payload.get("call_id") or payload.get("id"))
        if item_type == "message" and payload.get("role") == "assistant":
            text = _join_text(payload.get("content"))
            self.uncounted = {"at": at, "role": "assistant", "text": text, "model": self.model}
            self.ready.append(self.uncounted)
        elif item_type in _CALL_TYPES:
            call = {"at": at, "role": "tool", "text": "", "tool": payload.get("name") or "shell"}
            tool_input = payload.get("arguments") or payload.get("input") or payload.get("action")
            self.uncounted = self.calls[call_id] = {**call, "input": _decode_input(tool_input), "model": self.model}
        elif item_type in _OUTPUT_TYPES and call_id in self.calls:
            call = self.calls.pop(call_id)
            call["output"] = _parse_output(payload.get("output"))
            self.ready.append(call)

    def add_usage(self, raw_usage: object) -> None:
        usage = self.compute_usage(raw_usage)
        if self.uncounted is not None and usage:
            self.uncounted["usage"] = usage
        self.uncounted = None

    def compute_usage(self, raw_usage: object) -> dict[str, Any] | None:
        usage = _parse_usage(raw_usage)
        if usage and self.tier not in (None, "default", "auto"):
            return {**usage, "other_price": True}
        return usage

    def build_subagent_row(self, payload: dict[str, Any], at: object, model: object) -> dict[str, Any]:
        """Return a row for a sub-agent's response, of which only the usage is known."""
        call = {"at": at, "role": "tool", "text": "", "tool": "sub-agent", "model": model}
        tool_input = {"thread": payload.get("thread_id")}
        return {**call, "input": tool_input, "usage": self.compute_usage(payload.get("usage"))}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Yield the rows as they become complete. Internal rows are skipped."""
    builder = _RowBuilder()
    for row in parse_rows(lines):
        yield from builder.add_row(row)
    yield from builder.release_all()


def _join_text(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _decode_input(tool_input: object) -> object:
    """Return a tool's input; most calls hold it as JSON in a text."""
    if not isinstance(tool_input, str):
        return tool_input
    try:
        decoded = json.loads(tool_input)
    except (ValueError, RecursionError):
        return {"input": tool_input}
    return decoded if isinstance(decoded, dict) else {"input": tool_input}


def _parse_output(output: object) -> str:
    if isinstance(output, dict):
        output = output.get("content")
    return output if isinstance(output, str) else _join_text(output)


def _parse_usage(raw_usage: object) -> dict[str, Any] | None:
    """Return the token counts, or None when all are zero. Cached tokens are not counted as input again."""
    if not isinstance(raw_usage, dict):
        return None
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    counts = {name: raw_usage[name] if isinstance(raw_usage.get(name), int) else 0 for name in names}
    cached = counts["cached_input_tokens"] + counts["cache_write_input_tokens"]
    usage = {
        "input_tokens": max(0, counts["input_tokens"] - cached),
        "output_tokens": counts["output_tokens"],
        "cache_read_tokens": counts["cached_input_tokens"],
        "cache_write_tokens": counts["cache_write_input_tokens"],
    }
    return usage if any(usage.values()) else None
