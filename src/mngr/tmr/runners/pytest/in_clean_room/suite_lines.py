"""Plugin of the observer: reports which lines each test of a suite runs.

It sees the lines in the process of the tests and in every Python that they start.

Standard library and pytest only, Python 3.9 or newer. Lines that run outside of all tests have the context "". Lines of
a fixture that several tests share have their own context, and each test names the fixtures that it used. The plugin
`tracer` traces the programs that tests start.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

import pytest

observer: Any = globals().get("observer")  # set by the observer
tracer: Any = globals()["plugins"]["tracer"]


class LineContexts:
    """The lines of each context. One context is the current one."""

    def __init__(self) -> None:
        self.find_name = tracer.make_name_finder(observer.WORK_DIR)
        self.stack: list[tuple[str, dict[int, Any]]] = [("", {})]
        self.lines: dict[str, dict[str, set[int]]] = {"": {}}
        self.reported: dict[str, dict[str, set[int]]] = {}
        self.numbers: dict[str, int] = {"": 0}  # for the reports of other processes
        self.current, self.followers = self.lines[""], self.stack[0][1]
        self.restart: Any = None  # makes the interpreter report known lines again

    def enter(self, context: str) -> None:
        """Count the lines from now on for a context."""
        self.numbers.setdefault(context, len(self.numbers))
        self.stack.append((context, {}))
        self._switch()

    def leave(self) -> None:
        """Return to the context before the current one."""
        self.stack.pop()
        self._switch()

    # Bound as defaults, because a test may replace `open` with a fake file system.
    def _switch(self, _open: Any = os.open, _write: Any = os.write, _close: Any = os.close) -> None:
        context, self.followers = self.stack[-1]
        self.current = self.lines.setdefault(context, {})
        fd = _open(os.path.join(tracer.PLACE, "context"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write(fd, str(self.numbers[context]).encode())
        _close(fd)
        if self.restart is not None:
            self.restart()

    def report(self, context: str, **more: Any) -> None:
        """Report the lines of a context that are new since its last report."""
        lines = self.lines.get(context, {})
        self._add_other_processes(context, lines)
        known = self.reported.setdefault(context, {})
        files: dict[str, str] = {}
        for name, numbers in lines.items():
            new_numbers = numbers - known.setdefault(name, set())
            if new_numbers:
                known[name] |= new_numbers
                files[name] = format_ranges(new_numbers)
        if files or more:
            observer.write_row("lines", context=context, files=files, **more)

    def _add_other_processes(self, context: str, lines: dict[str, set[int]]) -> None:
        path = os.path.join(tracer.PLACE, f"lines-{self.numbers[context]}")
        try:
            os.rename(path, f"{path}.read")
        except OSError:
            return
        for name, numbers in tracer.read_lines(f"{path}.read").items():
            lines.setdefault(name, set()).update(numbers)


def format_ranges(numbers: set[int]) -> str:
    """Return numbers as text: 1-5,8."""
    parts: list[str] = []
    first = last = -1
    for number in [*sorted(numbers), -1]:
        if number != last + 1 or number == -1:
            if first >= 0:
                parts.append(str(first) if first == last else f"{first}-{last}")
            first = number
        last = number
    return ",".join(parts)


def _trace_with_settrace() -> None:
    """Before Python 3.12: trace a function until all of its lines have been seen in the context."""
    codes: dict[int, Any] = {}  # keeps the code objects, so that no id is used twice
    outside: set[int] = set()

    def on_call(frame: Any, event: str, argument: Any) -> Any:
        key = id(frame.f_code)
        if key in outside:
            return None
        followers = CONTEXTS.followers
        try:
            return followers[key]
        except KeyError:
            code = codes[key] = frame.f_code
            name = CONTEXTS.find_name(code.co_filename)
            if not name:
                outside.add(key)
                return None
            seen = CONTEXTS.current.setdefault(name, set())
            followers[key] = follow_code(key, seen, tracer.list_lines(code), followers)
            return followers[key]

    def follow_code(key: int, seen: set[int], left: set[int], followers: dict[int, Any]) -> Any:
        def on_line(frame: Any, event: str, argument: Any) -> Any:
            line = frame.f_lineno
            if line in left and event == "line":
                left.discard(line)
                seen.add(line)
                if not left:
                    followers[key] = None
            return on_line if left else None

        return on_line

    threading.settrace(on_call)
    sys.settrace(on_call)


def _trace_with_monitoring() -> None:
    """On Python 3.12 or newer: get each line once in each context, independently of other tracing tools."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    free_tool_ids = [number for number in (4, 3, 5, 2, 1, 0) if monitoring.get_tool(number) is None]
    if not free_tool_ids:
        return
    tool = free_tool_ids[0]

    def on_start(code: Any, offset: int) -> Any:
        if CONTEXTS.find_name(code.co_filename):
            monitoring.set_local_events(tool, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def on_line(code: Any, line: int) -> Any:
        CONTEXTS.current.setdefault(CONTEXTS.find_name(code.co_filename), set()).add(line)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, "mngr")
    monitoring.register_callback(tool, monitoring.events.PY_START, on_start)
    monitoring.register_callback(tool, monitoring.events.LINE, on_line)
    monitoring.set_events(tool, monitoring.events.PY_START)
    CONTEXTS.restart = monitoring.restart_events


def _trace_fork() -> None:
    """In a forked process, write each line to the report of the context, because the fork's memory is lost."""
    report = os.path.join(tracer.PLACE, f"lines-{CONTEXTS.numbers[CONTEXTS.stack[-1][0]]}")
    tracer.trace_process(observer.WORK_DIR, report)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Any:
    """Count the lines of a test."""
    test = observer.get_test_id(item)
    CONTEXTS.enter(test)
    yield
    CONTEXTS.leave()
    used = _USED_FIXTURES.pop(item, [])
    for context in used:
        CONTEXTS.report(context)
    CONTEXTS.report(test, fixtures=used)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: Any) -> None:
    """Note the shared fixtures that a test has used, while pytest still knows them."""
    info, request = getattr(item, "_fixtureinfo", None), getattr(item, "_request", None)
    definitions = [one for group in getattr(info, "name2fixturedefs", {}).values() for one in group]
    definitions += list((getattr(request, "_fixture_defs", None) or {}).values())
    contexts = [_FIXTURES[id(one)][0] for one in definitions if id(one) in _FIXTURES]
    _USED_FIXTURES[item] = list(dict.fromkeys(contexts))


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: Any) -> Any:
    """Count the lines of a shared fixture, set-up and teardown, for all tests that use it."""
    if fixturedef.scope == "function":
        yield
        return
    context, _ = _FIXTURES.setdefault(id(fixturedef), (f"fixture:{len(_FIXTURES) + 1}", fixturedef))
    CONTEXTS.enter(context)
    yield
    CONTEXTS.leave()
    finalizers = getattr(fixturedef, "_finalizers", [])
    finalizers[:] = [_count_lines(finalizer, context) for finalizer in finalizers]


def _count_lines(function: Any, context: str) -> Any:
    """Return a function that does the same, and whose lines count for a context."""

    def run_in_context(*args: Any, **more: Any) -> Any:
        CONTEXTS.enter(context)
        try:
            return function(*args, **more)
        finally:
            CONTEXTS.leave()

    return run_in_context


def pytest_collection_finish() -> None:
    """Report the lines that ran while pytest imported the tests."""
    CONTEXTS.report("")


def pytest_sessionfinish() -> None:
    """Report the rest of all lines, and the project's modules."""
    for context in list(CONTEXTS.lines):
        CONTEXTS.report(context)
    modules: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        path = CONTEXTS.find_name(str(getattr(module, "__file__", None) or ""))
        if path:
            modules[name] = path
    observer.write_row("modules", modules=modules)


CONTEXTS = LineContexts()
_FIXTURES: dict[int, tuple[str, Any]] = {}  # the context of each shared fixture
_USED_FIXTURES: dict[Any, list[str]] = {}
_trace_with_monitoring() if hasattr(sys, "monitoring") else _trace_with_settrace()
os.register_at_fork(after_in_child=_trace_fork)
