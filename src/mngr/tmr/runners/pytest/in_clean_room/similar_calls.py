"""Makes calls similar to those that a test makes, and reports their outcomes.

mngr adds this text to files of the implementation and decorates functions there with its decorator. At each call, the decorator
forks children, which make similar calls. Nothing that a child does to the memory of the program lasts.
mngr loads `similar_values.py` first.
Standard library only, Python 3.9 or newer.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import inspect
import io
import json
import os
import select
import signal
import sys
import tempfile
import time
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.tmr.runners.pytest.in_clean_room.similar_values import (
        OtherFile,
        describe,
        is_of_project,
        list_inputs,
        replace_part,
        shorten,
    )

_MAX_READ = 1 << 18  # bytes of the outcomes in a pipe
_CALL_SECONDS, _CHILD_WAIT = 0.5, 3.0  # processor time of one similar call, and time of one child
_MAX_CHILDREN = 3  # for the similar calls of one call
_DAYS = 3_650 * 86_400.0  # by which clocks are moved
_TOOLS = ("pytest", "_pytest", "pluggy", "unittest", "conftest", "test_", "tests", "mngr")
_HIDDEN_VARIABLES = ("PYTEST", "MNGR", "CI", "TOX", "GITHUB", "TEST")


def measure_processor_time() -> float:
    """Return the seconds that this process and its ended children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


# Calls in a child


class SimilarCallsDecorator:
    """Decorates functions. Each decorated function is also called with similar input."""

    def __init__(self, report: str, seed: int, most: int, seconds: float) -> None:
        self._report = report
        self._seed = seed
        self._most = most
        self._seconds = seconds
        self._known: dict[str, set[str]] = {}

    def __call__(self, name: str) -> Callable[[Any], Any]:
        """Return a decorator for the function of this name."""

        def decorate(function: Any) -> Any:
            if not callable(function):
                return function
            if inspect.iscoroutinefunction(function):

                @functools.wraps(function)
                async def call_later(*args: Any, **keywords: Any) -> Any:
                    self.explore(name, function, args, keywords)
                    return await function(*args, **keywords)

                return call_later

            @functools.wraps(function)
            def call(*args: Any, **keywords: Any) -> Any:
                self.explore(name, function, args, keywords)
                return function(*args, **keywords)

            return call

        return decorate

    def explore(self, name: str, function: Any, args: Any, keywords: Any) -> None:
        """Report the outcomes of a call and of similar ones, for the first calls of each function."""
        known = self._known.setdefault(name, set())
        if getattr(sys, "_mngr_is_exploring", False) or len(known) >= 3 or self._seconds <= 0:
            return
        sys._mngr_is_exploring = True  # type: ignore[attr-defined]
        began = measure_processor_time()
        with contextlib.suppress(Exception):
            all_keywords = {**keywords, **_find_plain_defaults(function, args, keywords)}
            subject = [list(args), all_keywords, list(sys.argv[1:]) if not args and not keywords else []]
            named = [f"{keyword}={describe(value)}" for keyword, value in keywords.items()]
            text = shorten(", ".join([*map(describe, args), *named, *map(describe, subject[2])]))
            if text not in known:
                known.add(text)
                row = {"name": name, "input": text, "outcomes": self._list_outcomes(function, subject, began)}
                with open(self._report, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        self._seconds -= measure_processor_time() - began
        sys._mngr_is_exploring = False  # type: ignore[attr-defined]

    def _list_outcomes(self, function: Any, subject: Any, began: float) -> list[list[str]]:
        """Return [kind, input, outcome, place] for the call itself, under other conditions, and with other input."""
        outcomes = [self._call_alone("same", function, subject) for _ in range(2)]
        inputs = list_inputs(subject, self._seed, self._most)
        size = len(inputs) if _can_copy(subject) else 1  # calls in the same child
        for first in range(0, len(inputs), max(1, size)):
            if measure_processor_time() - began > self._seconds / 2:  # other calls need the rest
                break
            group = inputs[first : first + size]
            answers = run_in_children([functools.partial(_call_with, function, subject, new) for _, new in group])
            for (kind, replacements), answer in zip(group, answers):  # noqa: B905 - unknown to Python 3.9
                shown = shorten(", ".join(_show(new) for _, new in replacements))
                place = ", ".join(_name_place(subject, steps) for steps, _ in replacements)
                outcomes.append([kind, shown, answer, place])
        kinds = [*([] if _has_callable(subject) else ["again"]), *_CONDITIONS]
        return outcomes + [self._call_alone(kind, function, subject) for kind in kinds]

    def _call_alone(self, kind: str, function: Any, subject: Any) -> list[str]:
        """Return the row of a call with the original input in a child."""
        return [kind, "", *run_in_children([functools.partial(_call_as, kind, function, subject)]), ""]


def _find_plain_defaults(function: Any, args: Any, keywords: Any) -> dict[str, Any]:
    """Return the texts and numbers that the function uses for the parameters that the call does not name."""
    try:
        signature = inspect.signature(function)
        given = signature.bind(*args, **keywords).arguments
    except (TypeError, ValueError):
        return {}
    return {
        name: parameter.default
        for name, parameter in signature.parameters.items()
        if name not in given
        and type(parameter.default) in (int, float, str)
        and parameter.kind != parameter.POSITIONAL_ONLY
    }


def _name_place(subject: Any, steps: Any) -> str:
    """Return the steps that lead to a part of the input, and the value there."""
    value = subject
    for how, name in steps:
        value = getattr(value, name) if how == "attribute" else value[name]
    return f"{'.'.join(str(name) for _, name in steps)}={shorten(describe(value))}"


def _has_callable(subject: Any) -> bool:
    """True when the call gets a function, which may keep a state that nobody can copy."""
    return any(isinstance(value, types.FunctionType) for value in [*subject[0], *subject[1].values()])


def _can_copy(subject: Any) -> bool:
    if _has_callable(subject):
        return False
    try:
        return describe(copy.deepcopy(subject)) == describe(subject)
    except Exception:
        return False


def _show(new: Any) -> str:
    return f"a file with {new.text!r}" if isinstance(new, OtherFile) else describe(new)


def _call_with(function: Any, subject: Any, replacements: Any) -> str:
    if _can_copy(subject):
        subject = copy.deepcopy(subject)
    for steps, new in replacements:
        if isinstance(new, OtherFile):
            new = new.write()
        subject = replace_part(subject, steps, new)
    return _call(function, subject)


def _call_as(kind: str, function: Any, subject: Any) -> str:
    if kind == "again":
        first = copy.deepcopy(subject)
        second = copy.deepcopy(subject)
        _call(function, first)
        return _call(function, second)
    if kind in _CONDITIONS:
        _CONDITIONS[kind](function)
    return _call(function, subject)


def _call(function: Any, subject: Any) -> str:
    args, keywords, words = subject
    if words:
        sys.argv[1:] = words
    log: list[str] = []
    args = [_watch(value, log) for value in args]
    keywords = {name: _watch(value, log) for name, value in keywords.items()}
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            result = function(*args, **keywords)
            if inspect.iscoroutine(result):
                asyncio.events._set_running_loop(None)
                result = asyncio.run(result)
            elif inspect.isgenerator(result):
                result = [item for _, item in zip(range(50), result)]  # noqa: B905 - unknown to Python 3.9
            outcome = describe(result)
        except BaseException as failure:
            outcome = f"raises {type(failure).__name__}: {failure}"
    printed = out.getvalue() + error.getvalue()
    state = "" if not args or not is_of_project(type(args[0])) else f" in {describe(args[0])}"
    calls = f" and calls {shorten('; '.join(log))}" if log else ""
    return f"{outcome}{state}{f' and prints {printed!r}' if printed else ''}{calls}"


def _watch(value: Any, log: list[str]) -> Any:
    """Return a function that does the same as a given function, and logs when it begins and ends."""
    if not isinstance(value, types.FunctionType) or inspect.isgeneratorfunction(value):
        return value
    if inspect.iscoroutinefunction(value):

        @functools.wraps(value)
        async def call_later(*args: Any, **keywords: Any) -> Any:
            text = ", ".join(map(describe, args))
            log.append(f"({text})")
            try:
                return await value(*args, **keywords)
            finally:
                log.append(f"end of ({text})")

        return call_later

    @functools.wraps(value)
    def call(*args: Any, **keywords: Any) -> Any:
        log.append(f"({', '.join(map(describe, args))})")
        return value(*args, **keywords)

    return call


def run_in_children(calls: list[Callable[[], str]]) -> list[str]:
    """Return what each call says, "unknown" for a call that says nothing. If it ends a child, the next child goes on."""
    outcomes: list[str] = []
    for _ in range(_MAX_CHILDREN):
        outcomes += _run_in_child(calls[len(outcomes) :])
        if len(outcomes) == len(calls):
            break
        outcomes.append("unknown")
    return outcomes + ["unknown"] * (len(calls) - len(outcomes))


def _run_in_child(calls: list[Callable[[], str]]) -> list[str]:
    """Return what the first of these calls say in a forked child: all of them, or those before the child ended."""
    source, target = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            os.close(source)
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            for call in calls:
                signal.setitimer(signal.ITIMER_PROF, _CALL_SECONDS)
                os.write(target, json.dumps(shorten(call())).encode() + b"\n")
        os._exit(0)
    os.close(target)
    data, end = b"", time.monotonic() + _CHILD_WAIT
    while len(data) < _MAX_READ and select.select([source], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(source, _MAX_READ)
        if not part:
            break
        data += part
    os.close(source)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.waitpid(pid, 0)
    return [str(json.loads(line)) for line in data.splitlines(keepends=True) if line.endswith(b"\n")][: len(calls)]


# Other conditions, in a child


def _move_clocks(function: Any) -> None:
    import datetime

    real = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}

    def move(name: str) -> Callable[[], float]:
        return lambda: real[name]() + _DAYS

    clocks = {real[name]: move(name) for name in real}
    for name in real:
        setattr(time, name, clocks[real[name]])

    class LaterDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=time.time())

    class LaterDate(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return datetime.date.fromtimestamp(time.time())

    others: dict[int, Any] = {id(old): new for old, new in clocks.items()}
    others.update({id(datetime.datetime): LaterDatetime, id(datetime.date): LaterDate})
    names = getattr(function, "__globals__", {})
    for name, value in list(names.items()):
        if id(value) in others:
            names[name] = others[id(value)]
    datetime.datetime, datetime.date = LaterDatetime, LaterDate  # type: ignore[misc]


def _change_directory(function: Any) -> None:
    os.chdir(tempfile.mkdtemp())


def _forget_test_tools(function: Any) -> None:
    for name in list(sys.modules):
        if name.startswith(_TOOLS) or name.rpartition(".")[2].startswith(("test_", "conftest")):
            del sys.modules[name]
    for name in list(os.environ):
        if name.startswith(_HIDDEN_VARIABLES):
            del os.environ[name]
    sys.argv[:] = ["program", *(word.replace("pytest-of", "data-of") for word in sys.argv[1:])]


_CONDITIONS: dict[str, Callable[[Any], None]] = {
    "later": _move_clocks,
    "elsewhere": _change_directory,
    "untested": _forget_test_tools,
}
