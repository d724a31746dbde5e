"""Parses the script of the model, and checks all of it before anything is played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from mngr.base.errors import UsageError
from mngr.base.untrusted_json import find_number, find_text, get_int, get_text

EXAMPLE = '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]'
_GROUPS_HINT = 'for example: {"NAME": [{"text": "done"}]}'
HINT = f"write a list of steps, for example: {EXAMPLE}"
UNLIMITED = -1
MATCH_MODES = ("tools", "all")
_MAX_SECONDS = 86_400
_RESERVED_HEADERS = ("content-length", "transfer-encoding")  # headers that the server sets itself


@dataclass(frozen=True)
class ScriptedCall:
    """A tool call of the model: a client's tool by name, or the client's tool for `sh` or `write`."""

    verb: str  # tool | sh | write
    name: str = ""
    value: object = None


@dataclass(frozen=True)
class ScriptedFailure:
    """An answer with an error status."""

    status: int
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None
    message: str | None = None
    body: object = None


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


def parse_script(data: object) -> ModelScript:
    """Return the script in JSON text or in parsed JSON. Raise UsageError that names the wrong step."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the script is not JSON: {error}", HINT) from None
    if isinstance(data, list):
        return ModelScript(steps=parse_steps(data))
    if not isinstance(data, dict):
        raise UsageError("a script must be a list of steps, or an object with the keys steps, sessions or named", HINT)
    _check_keys(data, ("steps", "sessions", "named", "match"), "the script")
    return ModelScript(
        steps=parse_steps(data.get("steps", [])),
        sessions=_parse_groups(data, "sessions"),
        named=_parse_groups(data, "named"),
        match=parse_match(data.get("match", "tools")),
    )


def parse_steps(data: object, location: str = "") -> Steps:
    """Return the steps in a list. Raise UsageError that names the wrong step."""
    if not isinstance(data, list):
        raise UsageError(f"{location}steps must be a list, not {_format_value(data)}", HINT)
    return tuple(_parse_step(step, f"{location}step {number}") for number, step in enumerate(data, 1))


def parse_match(value: object) -> str:
    """Return which requests use up steps."""
    if value not in MATCH_MODES:
        raise UsageError(f"match must be tools or all, not {_format_value(value)}", HINT)
    return str(value)


def _parse_groups(data: dict[str, object], key: str) -> dict[str, Steps]:
    groups = data.get(key, {})
    if not isinstance(groups, dict):
        raise UsageError(f"{key} must be an object that maps names to steps, not {_format_value(groups)}", _GROUPS_HINT)
    for name in groups:
        if not name or "/" in name:
            raise UsageError(f"{key}: {name!r} cannot be a name, because names are part of a path", HINT)
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
_TIMES = "a whole number from 1, or -1 for always"


def _parse_step(data: object, location: str) -> ScriptedStep:
    if not isinstance(data, dict):
        raise UsageError(f"{location} must be an object, not {_format_value(data)}", HINT)
    step: dict[str, object] = data
    _check_keys(step, _STEP_KEYS, location)
    _check_simple_values(step, location)
    usage = _parse_usage(step, location)
    fail = _parse_fail(step["fail"], f"{location}: fail") if "fail" in step else None
    return ScriptedStep(
        text=find_text(step, "text"),
        thinking=find_text(step, "thinking"),
        calls=_parse_calls(step, location),
        delay=find_number(step, "delay") or 0,
        chunk_delay=find_number(step, "chunk_delay") or 0,
        usage=usage,
        stop=find_text(step, "stop"),
        fail=fail,
        cut=get_int(step, "cut") if "cut" in step else None,
        cut_times=get_int(step, "cut_times", 1),
        sse_error=find_text(step, "sse_error"),
        sse_error_times=get_int(step, "sse_error_times", 1),
        hang=step.get("hang") is True,
        hang_times=get_int(step, "hang_times", UNLIMITED),
    )


def _check_simple_values(step: dict[str, object], location: str) -> None:
    """Raise UsageError when a text, a number or a flag in a step is wrong."""
    for key in _TEXT_KEYS:
        _check_value(isinstance(step.get(key, ""), str), location, step, key, "a string")
    for key in _SECONDS_KEYS:
        _check_value(_is_seconds(step.get(key, 0)), location, step, key, "a number of seconds")
    for key in _TIMES_KEYS:
        _check_value(_is_times(step.get(key, 1)), location, step, key, _TIMES)
        fault = key.removesuffix("_times")
        if key in step and not step.get(fault):
            raise UsageError(
                f"{location}: {key} works only together with {fault}", f"add {fault} to the step, or remove {key}"
            )
    _check_value(isinstance(step.get("hang", True), bool), location, step, "hang", "true or false")
    _check_value(_is_count(step.get("cut", 0)), location, step, "cut", "a whole number that is not negative")


def _parse_usage(step: dict[str, object], location: str) -> dict[str, int]:
    usage = step.get("usage", {})
    if isinstance(usage, dict) and set(usage) <= set(_USAGE_KEYS) and all(map(_is_count, usage.values())):
        return usage
    raise _wrong_value_error(location, step, "usage", "an object with the whole numbers " + ", ".join(_USAGE_KEYS))


def _parse_calls(step: dict[str, object], location: str) -> tuple[ScriptedCall, ...]:
    calls: list[ScriptedCall] = []
    if "input" in step:
        is_valid = "tool" in step and isinstance(step["input"], dict | str)
        _check_value(is_valid, location, step, "input", "an object or a string beside the key tool")
    if "tool" in step:
        calls.append(ScriptedCall("tool", get_text(step, "tool"), step.get("input", {})))
    if "sh" in step:
        calls.append(ScriptedCall("sh", value=step["sh"]))
    if "write" in step:
        calls.append(_parse_write(step, location))
    if "tools" in step:
        calls += _parse_tools(step, location)
    return tuple(calls)


def _parse_write(step: dict[str, object], location: str) -> ScriptedCall:
    write = step["write"]
    if isinstance(write, dict) and set(write) == {"path", "content"}:
        path, content = write["path"], write["content"]
        if isinstance(path, str) and isinstance(content, str):
            return ScriptedCall("write", path, content)
    raise _wrong_value_error(location, step, "write", "an object with path and content")


def _parse_tools(step: dict[str, object], location: str) -> list[ScriptedCall]:
    tools = step["tools"]
    if not isinstance(tools, list):
        raise _wrong_value_error(location, step, "tools", "a list of calls")
    calls: list[ScriptedCall] = []
    for number, call in enumerate(tools, 1):
        call_location = f"{location}: tools {number}"
        if not isinstance(call, dict):
            raise UsageError(f"{call_location} must be an object, not {_format_value(call)}", HINT)
        _check_keys(call, _CALL_KEYS, call_location)
        calls += _parse_step(call, call_location).calls
    return calls


def _parse_fail(data: object, location: str) -> ScriptedFailure:
    if not isinstance(data, dict):
        raise UsageError(f"{location} must be an object with a status, not {_format_value(data)}", HINT)
    fail: dict[str, object] = data
    _check_keys(fail, ("status", "times", "headers", "type", "message", "body"), location)
    status = fail.get("status")
    is_error_status = _is_count(status) and 400 <= get_int(fail, "status") < 600
    _check_value(is_error_status, location, fail, "status", "a number from 400 to 599")
    _check_value(_is_times(fail.get("times", 1)), location, fail, "times", _TIMES)
    for key in ("type", "message"):
        _check_value(isinstance(fail.get(key, ""), str), location, fail, key, "a string")
    return ScriptedFailure(
        status=get_int(fail, "status"),
        times=get_int(fail, "times", 1),
        headers=_parse_headers(fail, location),
        type=find_text(fail, "type"),
        message=find_text(fail, "message"),
        body=fail.get("body"),
    )


def _parse_headers(fail: dict[str, object], location: str) -> dict[str, str]:
    headers = fail.get("headers", {})
    if isinstance(headers, dict) and all(_is_header(name, value) for name, value in headers.items()):
        return {name: str(value) for name, value in headers.items()}
    raise _wrong_value_error(location, fail, "headers", "an object that maps header names to values, each on one line")


def _check_keys(data: dict[str, object], known: tuple[str, ...], location: str) -> None:
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{location}: unknown key {unknown[0]!r}; the keys are {', '.join(known)}", HINT)


def _check_value(is_valid: bool, location: str, data: dict[str, object], key: str, expected: str) -> None:
    if not is_valid:
        raise _wrong_value_error(location, data, key, expected)


def _wrong_value_error(location: str, data: dict[str, object], key: str, expected: str) -> UsageError:
    return UsageError(f"{location}: {key} must be {expected}, not {_format_value(data.get(key))}", HINT)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MAX_SECONDS


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12


def _is_times(value: object) -> bool:
    return value == UNLIMITED or (_is_count(value) and value != 0)


def _is_header(name: str, value: object) -> bool:
    if not name.isascii() or name.lower() in ("", *_RESERVED_HEADERS):
        return False
    if not all(c.isalnum() or c in "-_" for c in name):
        return False
    return isinstance(value, str | int | float) and str(value).isascii() and str(value).isprintable()


def _format_value(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
