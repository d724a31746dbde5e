"""Parses the script of the model, and checks all of it before anything is played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mngr.base.errors import UsageError

EXAMPLE = '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]'
HINT = f"a script is a list of steps, for example: {EXAMPLE}"
UNLIMITED = -1
MATCH_MODES = ("tools", "all")
_MAX_SECONDS = 86_400
_RESERVED_HEADERS = ("content-length", "transfer-encoding")  # headers that the server sets itself


@dataclass(frozen=True)
class ScriptedCall:
    """A tool call of the model: a client's tool by name, or the client's tool for `sh` or `write`."""

    verb: str  # tool | sh | write
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class ScriptedFailure:
    """An answer with an error status."""

    status: int
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None
    message: str | None = None
    body: Any = None


@dataclass(frozen=True)
class ScriptedStep:
    """The answer to one request, and the faults that come before it."""

    text: str | None = None
    thinking: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    delay: float = 0
    chunk_delay: float = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    stop: str | None = None
    fail: ScriptedFailure | None = None
    cut: int | None = None
    cut_times: int = 1
    sse_error: str | None = None
    sse_error_times: int = 1
    hang: bool = False
    hang_times: int = UNLIMITED

    def find_fault(self, request_count: int) -> str | None:
        """Return the fault of the `request_count`-th request, or None. The order is fail, hang, cut, sse_error."""
        remaining = request_count
        for name, times in (
            ("fail", self.fail.times if self.fail else 0),
            ("hang", self.hang_times if self.hang else 0),
            ("cut", self.cut_times if self.cut is not None else 0),
            ("sse_error", self.sse_error_times if self.sse_error else 0),
        ):
            if times == UNLIMITED or remaining <= times:
                return name
            remaining -= times
        return None


Steps = tuple[ScriptedStep, ...]


@dataclass(frozen=True)
class ModelScript:
    """The steps of each session. `steps` applies to sessions without their own steps."""

    steps: Steps = ()
    sessions: Mapping[str, Steps] = field(default_factory=dict)
    named: Mapping[str, Steps] = field(default_factory=dict)
    match: str = "tools"


def parse_script(data: Any) -> ModelScript:
    """Return the script in JSON text or in parsed JSON. Raise UsageError that names the wrong step."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the script is not JSON: {error}", HINT) from None
    if isinstance(data, list):
        return ModelScript(steps=parse_steps(data))
    if not isinstance(data, dict):
        raise UsageError("a script is a list of steps, or an object with steps, sessions or named", HINT)
    _check_keys(data, ("steps", "sessions", "named", "match"), "the script")
    return ModelScript(
        steps=parse_steps(data.get("steps", [])),
        sessions=_parse_groups(data, "sessions"),
        named=_parse_groups(data, "named"),
        match=parse_match(data.get("match", "tools")),
    )


def parse_steps(data: Any, location: str = "") -> Steps:
    """Return the steps in a list. Raise UsageError that names the wrong step."""
    if not isinstance(data, list):
        raise UsageError(f"{location}steps are a list, not {_format_value(data)}", HINT)
    return tuple(_parse_step(step, f"{location}step {number}") for number, step in enumerate(data, 1))


def parse_match(value: Any) -> str:
    """Return which requests use up steps."""
    if value not in MATCH_MODES:
        raise UsageError(f"match is tools or all, not {_format_value(value)}", HINT)
    return str(value)


def _parse_groups(data: dict[str, Any], key: str) -> dict[str, Steps]:
    groups = data.get(key, {})
    if not isinstance(groups, dict):
        raise UsageError(f"{key} is an object of names and steps, not {_format_value(groups)}", HINT)
    for name in groups:
        if not name or "/" in name:
            raise UsageError(f"{key}: {name!r} cannot be a name: it stands in a path", HINT)
    return {name: parse_steps(steps, f"{key}.{name}: ") for name, steps in groups.items()}


_TEXT_KEYS = ("text", "thinking", "sh", "tool", "stop", "sse_error")
_SECONDS_KEYS = ("delay", "chunk_delay")
_TIMES_KEYS = ("cut_times", "sse_error_times", "hang_times")
_CALL_KEYS = ("tool", "input", "sh", "write")
_STEP_KEYS = (
    *_TEXT_KEYS,
    "input",
    "write",
    "tools",
    *_SECONDS_KEYS,
    "usage",
    "fail",
    "cut",
    "hang",
    *_TIMES_KEYS,
)
_USAGE_KEYS = ("input", "output", "cache_read", "cache_write")


def _parse_step(step: Any, location: str) -> ScriptedStep:
    if not isinstance(step, dict):
        raise UsageError(f"{location} is an object, not {_format_value(step)}", HINT)
    _check_keys(step, _STEP_KEYS, location)
    for key in _TEXT_KEYS:
        _check_value(isinstance(step.get(key, ""), str), location, step, key, "a text")
    for key in _SECONDS_KEYS:
        _check_value(_is_seconds(step.get(key, 0)), location, step, key, "a number of seconds")
    for key in _TIMES_KEYS:
        _check_value(_is_times(step.get(key, 1)), location, step, key, "a whole number from 1, or -1 for always")
        fault = key.removesuffix("_times")
        if key in step and not step.get(fault):
            raise UsageError(f"{location}: {key} without {fault}", HINT)
    _check_value(isinstance(step.get("hang", True), bool), location, step, "hang", "true or false")
    _check_value(_is_count(step.get("cut", 0)), location, step, "cut", "a whole number that is not negative")
    usage = step.get("usage", {})
    _check_value(
        isinstance(usage, dict) and set(usage) <= set(_USAGE_KEYS) and all(map(_is_count, usage.values())),
        location, step, "usage", "an object of whole numbers: " + ", ".join(_USAGE_KEYS),
    )  # fmt: skip
    fields = {k: step[k] for k in step if k not in (*_CALL_KEYS, "tools", "fail")}
    fail = _parse_fail(step["fail"], location) if "fail" in step else None
    return ScriptedStep(**fields, calls=_parse_calls(step, location), fail=fail)


def _parse_calls(step: dict[str, Any], location: str) -> tuple[ScriptedCall, ...]:
    calls: list[ScriptedCall] = []
    if "input" in step:
        is_valid = "tool" in step and isinstance(step["input"], dict | str)
        _check_value(is_valid, location, step, "input", "an object or a text, beside tool")
    if "tool" in step:
        calls.append(ScriptedCall("tool", step["tool"], step.get("input", {})))
    if "sh" in step:
        calls.append(ScriptedCall("sh", value=step["sh"]))
    if "write" in step:
        write = step["write"]
        is_valid = isinstance(write, dict) and set(write) == {"path", "content"}
        is_valid = is_valid and all(isinstance(value, str) for value in write.values())
        _check_value(is_valid, location, step, "write", "an object with path and content")
        calls.append(ScriptedCall("write", write["path"], write["content"]))
    if "tools" in step:
        _check_value(isinstance(step["tools"], list), location, step, "tools", "a list of calls")
        for number, call in enumerate(step["tools"], 1):
            call_location = f"{location}: tools {number}"
            if not isinstance(call, dict):
                raise UsageError(f"{call_location} is an object, not {_format_value(call)}", HINT)
            _check_keys(call, _CALL_KEYS, call_location)
            calls += _parse_step(call, call_location).calls
    return tuple(calls)


def _parse_fail(fail: Any, location: str) -> ScriptedFailure:
    location += ": fail"
    if not isinstance(fail, dict):
        raise UsageError(f"{location} is an object with a status, not {_format_value(fail)}", HINT)
    _check_keys(fail, ("status", "times", "headers", "type", "message", "body"), location)
    status = fail.get("status", 0)
    _check_value(_is_count(status) and 400 <= status < 600, location, fail, "status", "a number from 400 to 599")
    _check_value(_is_times(fail.get("times", 1)), location, fail, "times", "a whole number from 1, or -1 for always")
    for key in ("type", "message"):
        _check_value(isinstance(fail.get(key, ""), str), location, fail, key, "a text")
    headers = fail.get("headers", {})
    is_valid = isinstance(headers, dict) and all(map(_is_header, headers.items()))
    _check_value(is_valid, location, fail, "headers", "an object of names and values, each on one line")
    return ScriptedFailure(**{**fail, "headers": {name: str(value) for name, value in headers.items()}})


def _check_keys(data: dict[str, Any], known: tuple[str, ...], location: str) -> None:
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{location}: there is no {unknown[0]!r}; there are {', '.join(known)}", HINT)


def _check_value(is_valid: bool, location: str, data: dict[str, Any], key: str, expected: str) -> None:
    if not is_valid:
        raise UsageError(f"{location}: {key} wants {expected}, not {_format_value(data.get(key))}", HINT)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_SECONDS


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12


def _is_times(value: Any) -> bool:
    return value == UNLIMITED or (_is_count(value) and value > 0)


def _is_header(item: tuple[str, Any]) -> bool:
    name, value = item
    is_valid = bool(name) and name.isascii() and all(c.isalnum() or c in "-_" for c in name)
    is_valid = is_valid and name.lower() not in _RESERVED_HEADERS
    return is_valid and isinstance(value, str | int | float) and str(value).isascii() and str(value).isprintable()


def _format_value(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
