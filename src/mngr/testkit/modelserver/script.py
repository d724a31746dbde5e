"""What a model is to say: a script is parsed and checked as a whole before any of it is played."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mngr.base.errors import UsageError

EXAMPLE = '[{"sh": "echo hi > hi.txt"}, {"text": "done"}]'
HINT = f"a script is a list of steps, for example: {EXAMPLE}"
FOREVER = -1
MATCHES = ("tools", "all")
_MOST_SECONDS = 86_400
_OURS = ("content-length", "transfer-encoding")  # headers that follow from the answer


@dataclass(frozen=True)
class Call:
    """A tool that the model calls: one of the client's own by name, or whatever it has for `sh` or `write`."""

    verb: str  # tool | sh | write
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class Fail:
    """An answer with an error status."""

    status: int
    times: int = 1
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str | None = None
    message: str | None = None
    body: Any = None


@dataclass(frozen=True)
class Step:
    """What one request is answered with, and what goes wrong before that."""

    text: str | None = None
    thinking: str | None = None
    calls: tuple[Call, ...] = ()
    delay: float = 0
    chunk_delay: float = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    stop: str | None = None
    fail: Fail | None = None
    cut: int | None = None
    cut_times: int = 1
    sse_error: str | None = None
    sse_error_times: int = 1
    hang: bool = False
    hang_times: int = FOREVER

    def fault(self, asked: int) -> str | None:
        """What goes wrong when it is asked for the `asked`th time: fail, hang, cut, sse_error, in this order."""
        left = asked
        for name, times in (
            ("fail", self.fail.times if self.fail else 0),
            ("hang", self.hang_times if self.hang else 0),
            ("cut", self.cut_times if self.cut is not None else 0),
            ("sse_error", self.sse_error_times if self.sse_error else 0),
        ):
            if times == FOREVER or left <= times:
                return name
            left -= times
        return None


Steps = tuple[Step, ...]


@dataclass(frozen=True)
class Script:
    """The steps of each session; `steps` for those that are not named."""

    steps: Steps = ()
    sessions: Mapping[str, Steps] = field(default_factory=dict)
    named: Mapping[str, Steps] = field(default_factory=dict)
    match: str = "tools"


def parse_script(data: Any) -> Script:
    """A script from JSON text or from what that stands for; UsageError names the step that is wrong."""
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the script is not JSON: {error}", HINT) from None
    if isinstance(data, list):
        return Script(steps=parse_steps(data))
    if not isinstance(data, dict):
        raise UsageError("a script is a list of steps, or an object with steps, sessions or named", HINT)
    _only(data, ("steps", "sessions", "named", "match"), "the script")
    return Script(
        steps=parse_steps(data.get("steps", [])),
        sessions=_parse_groups(data, "sessions"),
        named=_parse_groups(data, "named"),
        match=parse_match(data.get("match", "tools")),
    )


def parse_steps(data: Any, where: str = "") -> Steps:
    """The steps in a list; UsageError names the one that is wrong."""
    if not isinstance(data, list):
        raise UsageError(f"{where}steps are a list, not {_shown(data)}", HINT)
    return tuple(_parse_step(step, f"{where}step {number}") for number, step in enumerate(data, 1))


def parse_match(value: Any) -> str:
    """Which requests use up steps."""
    if value not in MATCHES:
        raise UsageError(f"match is tools or all, not {_shown(value)}", HINT)
    return str(value)


def _parse_groups(data: dict[str, Any], key: str) -> dict[str, Steps]:
    groups = data.get(key, {})
    if not isinstance(groups, dict):
        raise UsageError(f"{key} is an object of names and steps, not {_shown(groups)}", HINT)
    for name in groups:
        if not name or "/" in name:
            raise UsageError(f"{key}: {name!r} cannot be a name: it stands in a path", HINT)
    return {name: parse_steps(steps, f"{key}.{name}: ") for name, steps in groups.items()}


_TEXTS = ("text", "thinking", "sh", "tool", "stop", "sse_error")
_SECONDS = ("delay", "chunk_delay")
_TIMES = ("cut_times", "sse_error_times", "hang_times")
_CALLS = ("tool", "input", "sh", "write")
_KEYS = (*_TEXTS, "input", "write", "tools", *_SECONDS, "usage", "fail", "cut", "hang", *_TIMES)
_COUNTS = ("input", "output", "cache_read", "cache_write")


def _parse_step(step: Any, where: str) -> Step:
    if not isinstance(step, dict):
        raise UsageError(f"{where} is an object, not {_shown(step)}", HINT)
    _only(step, _KEYS, where)
    for key in _TEXTS:
        _want(isinstance(step.get(key, ""), str), where, step, key, "a text")
    for key in _SECONDS:
        _want(_is_seconds(step.get(key, 0)), where, step, key, "a number of seconds")
    for key in _TIMES:
        _want(_is_times(step.get(key, 1)), where, step, key, "a whole number from 1, or -1 for always")
        fault = key.removesuffix("_times")
        if key in step and not step.get(fault):
            raise UsageError(f"{where}: {key} without {fault}", HINT)
    _want(isinstance(step.get("hang", True), bool), where, step, "hang", "true or false")
    _want(_is_count(step.get("cut", 0)), where, step, "cut", "a whole number that is not negative")
    usage = step.get("usage", {})
    _want(
        isinstance(usage, dict) and set(usage) <= set(_COUNTS) and all(map(_is_count, usage.values())),
        where, step, "usage", "an object of whole numbers: " + ", ".join(_COUNTS),
    )  # fmt: skip
    plain = {k: step[k] for k in step if k not in (*_CALLS, "tools", "fail")}
    fail = _parse_fail(step["fail"], where) if "fail" in step else None
    return Step(**plain, calls=_parse_calls(step, where), fail=fail)


def _parse_calls(step: dict[str, Any], where: str) -> tuple[Call, ...]:
    found: list[Call] = []
    if "input" in step:
        fits = "tool" in step and isinstance(step["input"], dict | str)
        _want(fits, where, step, "input", "an object or a text, beside tool")
    if "tool" in step:
        found.append(Call("tool", step["tool"], step.get("input", {})))
    if "sh" in step:
        found.append(Call("sh", value=step["sh"]))
    if "write" in step:
        write = step["write"]
        fits = isinstance(write, dict) and set(write) == {"path", "content"}
        fits = fits and all(isinstance(value, str) for value in write.values())
        _want(fits, where, step, "write", "an object with path and content")
        found.append(Call("write", write["path"], write["content"]))
    if "tools" in step:
        _want(isinstance(step["tools"], list), where, step, "tools", "a list of calls")
        for number, call in enumerate(step["tools"], 1):
            inside = f"{where}: tools {number}"
            if not isinstance(call, dict):
                raise UsageError(f"{inside} is an object, not {_shown(call)}", HINT)
            _only(call, _CALLS, inside)
            found += _parse_step(call, inside).calls
    return tuple(found)


def _parse_fail(fail: Any, where: str) -> Fail:
    where += ": fail"
    if not isinstance(fail, dict):
        raise UsageError(f"{where} is an object with a status, not {_shown(fail)}", HINT)
    _only(fail, ("status", "times", "headers", "type", "message", "body"), where)
    status = fail.get("status", 0)
    _want(_is_count(status) and 400 <= status < 600, where, fail, "status", "a number from 400 to 599")
    _want(_is_times(fail.get("times", 1)), where, fail, "times", "a whole number from 1, or -1 for always")
    for key in ("type", "message"):
        _want(isinstance(fail.get(key, ""), str), where, fail, key, "a text")
    headers = fail.get("headers", {})
    fits = isinstance(headers, dict) and all(map(_is_header, headers.items()))
    _want(fits, where, fail, "headers", "an object of names and values, each on one line")
    return Fail(**{**fail, "headers": {name: str(value) for name, value in headers.items()}})


def _only(data: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise UsageError(f"{where}: there is no {unknown[0]!r}; there are {', '.join(known)}", HINT)


def _want(fits: bool, where: str, data: dict[str, Any], key: str, wanted: str) -> None:
    if not fits:
        raise UsageError(f"{where}: {key} wants {wanted}, not {_shown(data.get(key))}", HINT)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_SECONDS


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12


def _is_times(value: Any) -> bool:
    return value == FOREVER or (_is_count(value) and value > 0)


def _is_header(item: tuple[str, Any]) -> bool:
    name, value = item
    fits = bool(name) and name.isascii() and all(c.isalnum() or c in "-_" for c in name)
    fits = fits and name.lower() not in _OURS
    return fits and isinstance(value, str | int | float) and str(value).isascii() and str(value).isprintable()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
