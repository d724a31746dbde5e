"""Codex's own record of a conversation, in our schema, and what it says of how a turn ended."""

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
    """How a turn ended that did not end well: why it is parked, if it is, and until when."""

    at: str
    message: str  # in its own words
    reason: str | None = None
    until: str | None = None


def find_failed_turn(row: dict[str, Any] | None) -> FailedTurn | None:
    """What a row of the record says, if it is the end of a turn."""
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
    elif info == "other" and (told := _UNEXPECTED_STATUS.match(str(error.get("message")))):
        reason = _STATUS_REASONS.get(int(told[1]))  # 0.150
    until = None
    if reason == "quota" and (reset := limit_resets.find_reset(str(error.get("message")))):
        until = limit_resets.parse_reset(reset, at, 0.0, str((row or {}).get("zone") or "+0000"))
    return FailedTurn(at=at, message=_shorten_error(error.get("message") or info), reason=reason, until=until)


def _shorten_error(said: object) -> str:
    return " ".join(str(said).split())[:200]


def parse_hook_keys(answer: bytes) -> list[str] | None:
    """The keys of all hooks that are not the agent's own, from what the program answers to `hooks/list`; None if it is no answer."""
    try:
        found = json.loads(answer)["result"]["data"]
        return [str(hook["key"]) for place in found for hook in place["hooks"] if hook["source"] != "user"]
    except (ValueError, LookupError, TypeError):
        return None


class _RowBuilder:
    """Rows as they are complete: a call and its result are one, and what a response cost goes with its last part."""

    def __init__(self) -> None:
        self.model: object = None
        self.models: dict[object, object] = {}  # of the turns of sub-agents
        self.tier: object = None  # in which it is served, if that is not the usual one
        self.counts_responses = False  # the newer way; it writes the older way too
        self.total: object = None  # the older way repeats itself
        self.calls: dict[str, dict[str, Any]] = {}
        self.ready: list[dict[str, Any]] = []
        self.uncounted: dict[str, Any] | None = None  # what will be told the cost of the response that comes in

    def release_complete(self) -> Iterator[dict[str, Any]]:
        """What is complete, once nothing of it waits for what it cost."""
        if self.uncounted is None:
            yield from self.ready
            self.ready = []

    def release_all(self) -> Iterator[dict[str, Any]]:
        """Everything, be it incomplete."""
        self.uncounted = None
        self.ready += self.calls.values()
        self.calls = {}
        yield from self.release_complete()

    def add_row(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        payload = row.get("payload")
        if not isinstance(payload, dict):
            return
        word, at = row.get("type"), row.get("timestamp")
        turn = payload.get("turn_id")
        if word == "turn_context":
            if payload.get("root_turn_id", turn) == turn:
                self.model = payload.get("model")
            elif isinstance(turn, str):
                self.models[turn] = payload.get("model")
        elif word == "token_usage_record":
            self.counts_responses = True
            if payload.get("thread_id") == payload.get("session_id"):
                self.add_usage(payload.get("usage"))
            else:
                yield self.build_subagent_row(payload, at, self.models.get(str(turn), self.model))
        elif word == "event_msg":
            yield from self.add_event(payload, at)
        elif word == "response_item":
            self.add_item(payload, at)
        yield from self.release_complete()

    def add_event(self, payload: dict[str, Any], at: object) -> Iterator[dict[str, Any]]:
        word = payload.get("type")
        text = None
        if word == "user_message":
            text = payload.get("message")
        elif word == "item_completed":
            item = payload.get("item")
            if isinstance(item, dict) and item.get("type") == "UserMessage":
                text = _join_text(item.get("content"))
        elif word == "thread_settings_applied":
            settings = payload.get("thread_settings")
            self.tier = settings.get("service_tier") if isinstance(settings, dict) else None
        elif word == "token_count" and not self.counts_responses:
            info = payload.get("info")
            if isinstance(info, dict) and info.get("total_token_usage") != self.total:
                self.total = info.get("total_token_usage")
                self.add_usage(info.get("last_token_usage"))
        elif word in ("task_complete", "turn_aborted"):
            yield from self.release_all()
        if isinstance(text, str):
            self.ready.append({"at": at, "role": "user", "text": text})

    def add_item(self, payload: dict[str, Any], at: object) -> None:
        word = payload.get("type")
        name = str(payload.get("call_id") or payload.get("id"))
        if word == "message" and payload.get("role") == "assistant":
            text = _join_text(payload.get("content"))
            self.uncounted = {"at": at, "role": "assistant", "text": text, "model": self.model}
            self.ready.append(self.uncounted)
        elif word in _CALL_TYPES:
            call = {"at": at, "role": "tool", "text": "", "tool": payload.get("name") or "shell"}
            given = payload.get("arguments") or payload.get("input") or payload.get("action")
            self.uncounted = self.calls[name] = {**call, "input": _decode_input(given), "model": self.model}
        elif word in _OUTPUT_TYPES and name in self.calls:
            call = self.calls.pop(name)
            call["output"] = _parse_output(payload.get("output"))
            self.ready.append(call)

    def add_usage(self, found: object) -> None:
        usage = self.compute_usage(found)
        if self.uncounted is not None and usage:
            self.uncounted["usage"] = usage
        self.uncounted = None

    def compute_usage(self, found: object) -> dict[str, Any] | None:
        usage = _parse_usage(found)
        if usage and self.tier not in (None, "default", "auto"):
            return {**usage, "other_price": True}
        return usage

    def build_subagent_row(self, payload: dict[str, Any], at: object, model: object) -> dict[str, Any]:
        """A response to a sub-agent, of which only the cost is told."""
        call = {"at": at, "role": "tool", "text": "", "tool": "sub-agent", "model": model}
        given = {"thread": payload.get("thread_id")}
        return {**call, "input": given, "usage": self.compute_usage(payload.get("usage"))}


def parse(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Rows as they are complete. What is not for people is left out."""
    rows = _RowBuilder()
    for row in parse_rows(lines):
        yield from rows.add_row(row)
    yield from rows.release_all()


def _join_text(content: object) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _decode_input(given: object) -> object:
    """A tool's input, which most calls hold as JSON in a text."""
    if not isinstance(given, str):
        return given
    try:
        found = json.loads(given)
    except (ValueError, RecursionError):
        return {"input": given}
    return found if isinstance(found, dict) else {"input": given}


def _parse_output(found: object) -> str:
    if isinstance(found, dict):
        found = found.get("content")
    return found if isinstance(found, str) else _join_text(found)


def _parse_usage(found: object) -> dict[str, Any] | None:
    """What is read from a cache is not counted as input again."""
    if not isinstance(found, dict):
        return None
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_input_tokens")
    count = {name: found[name] if isinstance(found.get(name), int) else 0 for name in names}
    cached = count["cached_input_tokens"] + count["cache_write_input_tokens"]
    usage = {
        "input_tokens": max(0, count["input_tokens"] - cached),
        "output_tokens": count["output_tokens"],
        "cache_read_tokens": count["cached_input_tokens"],
        "cache_write_tokens": count["cache_write_input_tokens"],
    }
    return usage if any(usage.values()) else None
