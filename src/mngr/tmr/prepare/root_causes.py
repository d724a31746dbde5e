"""Which failures have one cause: by exception, place in the project's code, and message without what changes from run to run.

Being wrong in one direction costs an agent more; in the other it hides a cause behind another. So tests are put together only
on evidence beyond themselves: a place in the code they share, or what the program under test said when it ended.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping
from typing import Any

from mngr.base.model import Record
from mngr.tmr.cleanroom.test_run import Failure, Frame, TestRun, first_line

# What is broken for all comes first.
_KINDS = {
    "internal": "collect",
    "collect": "collect",
    "setup": "fixture",
    "call": "call",
    "teardown": "teardown",
}
_ORDER = ("collect", "fixture", "call", "teardown", "interrupted")
# Of these the name in quotes is what is missing; of all others a value in quotes is one of many.
_NAMING = (
    "KeyError",
    "AttributeError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "UnboundLocalError",
    "FileNotFoundError",
)
_TESTS = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_TRACE = re.compile(r'^[!\s]*File "([^"\n]+)", line (\d+), in (\S+)\s*$', re.MULTILINE)
_RAISED = re.compile(
    r"^[!\s]*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|[a-z]))(?:: (.*))?$"
)
_UNEXPECTED_EXIT = re.compile(
    r"^\$ (?P<command>.*)\nthe exit code is (?P<code>-?[1-9]\d*), expected \d+$", re.MULTILINE
)
_VOLATILE = (
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "ID"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "HEX"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "TIME"),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?\b"), "TIME"),
    (re.compile(r"(?<![\w.])(?:/[^\s/'\":,()]+)+/([^\s/'\":,()]+)"), r"PATH/\1"),
    (re.compile(r"\btmp[\w-]{4,}\b|\bpytest-\d+\b"), "TMP"),
    (re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,64}\b"), "HEX"),
    (re.compile(r"\b\d+(?:\.\d+)?(?=\s?(?:s|ms|us|seconds?|minutes?|bytes?|[KMG]i?B)\b)"), "N"),
    (re.compile(r"(?<![A-Za-z_])\d+(?:\.\d+)?\b"), "N"),
)
_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]*`")
_LONGEST = 300


class Signature(Record):
    """What failures of one cause have in common."""

    kind: str  # collect | fixture | call | teardown | program | timeout | crash
    exception: str
    frame: str  # PATH:LINE FUNCTION, or empty
    message: str

    @property
    def title(self) -> str:
        """The signature in a line."""
        where = f" in {self.frame}" if self.frame else ""
        return f"{self.exception or self.kind}{where}: {self.message}".rstrip(": ")[:160]


class Cluster(Record):
    """Tests that fail for one cause, as far as can be told."""

    id: str
    title: str
    signature: Signature
    tests: list[str]
    shared: bool  # more than one test: a task of its own, with these as witnesses

    def to_dict(self) -> dict[str, Any]:
        """As it stands in clusters.json."""
        return {**super().to_dict(), "signature": self.signature.to_dict()}


def clusters(runs: Mapping[str, TestRun]) -> list[Cluster]:
    """The causes of failed runs, by test id; the one with most tests first, what is broken for all before the rest."""
    groups: dict[Signature, list[str]] = {}
    for test, run in runs.items():
        groups.setdefault(signature(run), []).append(test)
    found = [
        Cluster(
            id=f"c{zlib.crc32(repr(found).encode()):08x}",
            title=found.title,
            signature=found,
            tests=tests,
            shared=len(tests) > 1,
        )
        for found, tests in groups.items()
    ]
    return sorted(found, key=lambda c: (not c.shared, _rank(c.signature.kind), -len(c.tests)))


def _rank(kind: str) -> int:
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def signature(run: TestRun) -> Signature:
    """What a failed run has in common with others of the same cause."""
    if run.outcome == "crash":
        return Signature(kind="crash", exception="", frame=run.test, message=volatile(run.why))
    failures = sorted(run.failures, key=lambda f: _rank(_KINDS.get(f.when, f.when)))
    if run.outcome == "timeout":
        frame = _place(failures[0], shared=True) if failures else None
        return Signature(
            kind="timeout", exception="", frame=_named(frame) or run.test, message="it did not end in time"
        )
    if not failures:
        return Signature(kind=run.outcome, exception="", frame=run.test, message=volatile(run.why))
    first = failures[0]
    return _of_program(first) or _of_code(first, _KINDS.get(first.when, first.when), run.test)


def _of_code(failure: Failure, kind: str, test: str) -> Signature:
    inner = _inner(failure)
    if inner is not None:  # the traceback of another process, in what the test shows
        exception, message, where = inner
        return Signature(
            kind="program", exception=exception, frame=where, message=template(exception, message)
        )
    exception, message = (
        failure.exception,
        first_line(failure.message or failure.text.strip().rpartition("\n")[2]),
    )
    is_check = exception.rpartition(".")[2] == "AssertionError" or not exception
    frame = _place(failure, shared=kind != "call" or not is_check)
    if kind == "collect":
        where = "" if frame is None or is_of_tests(frame.path) else _named(frame)
        return Signature(kind=kind, exception=exception, frame=where, message=volatile(message))
    if frame is None or (is_of_tests(frame.path) and is_check and kind == "call"):
        return Signature(kind=kind, exception=exception, frame=_named(frame) or test, message=_cut(message))
    if is_of_tests(frame.path) and kind == "call" and _is_test(frame, test):
        return Signature(kind=kind, exception=exception, frame=_named(frame), message=volatile(message))
    return Signature(
        kind=kind, exception=exception, frame=_named(frame), message=template(exception, message)
    )


def _place(failure: Failure, *, shared: bool) -> Frame | None:
    """The innermost place in the project's code; one in its tests only if there is no other, and then a test's own unless `shared`."""
    own = [frame for frame in failure.frames if frame.project]
    code = [frame for frame in own if not is_of_tests(frame.path)]
    if code:
        return code[-1]
    return (own[-1] if shared else own[0]) if own else None


def _is_test(frame: Frame, test: str) -> bool:
    return test.rpartition("::")[2] == frame.function


def is_of_tests(path: str) -> bool:
    """Whether a file belongs to the tests and not to what they test."""
    return _TESTS.search(path.replace(os.sep, "/")) is not None


def is_test_file(path: str) -> bool:
    """Whether pytest looks for tests in a file of this name."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _named(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame.path}:{frame.line} {frame.function}"


def _of_program(failure: Failure) -> Signature | None:
    """What a program said that should have succeeded and did not, as a transcript of mngr.e2e shows it."""
    found = _UNEXPECTED_EXIT.search(failure.message)
    if found is None or _inner(failure) is not None:
        return None
    rows = failure.message.rpartition("\n$ ")[2].splitlines()
    said = [row[2:].strip() for row in rows if row.startswith("! ") and row[2:].strip()]
    if not said:
        return None
    program = os.path.basename(found["command"].split()[0]) if found["command"].split() else ""
    return Signature(
        kind="program", exception=f"exit code {found['code']}", frame=program, message=volatile(said[-1])
    )


def _inner(failure: Failure) -> tuple[str, str, str] | None:
    """(exception, message, place) of the last Python traceback in what a check says, if it is of the project's code."""
    if not failure.exception.endswith(("AssertionError", "CalledProcessError")):
        return None
    for text in (failure.message, *failure.sections.values()):
        trace = [found for found in _TRACE.finditer(text) if not _is_foreign(found[1])]
        if not trace:
            continue
        last = trace[-1]
        for row in text[last.end() :].splitlines():
            if raised := _RAISED.match(row.rstrip()):
                place = f"{os.path.normpath(last[1])}:{last[2]} {last[3]}"
                return raised[1], raised[2] or "", place
    return None


def _is_foreign(path: str) -> bool:
    """Whether a file is not the project's; what is in the room is named from its work dir."""
    return (
        path.startswith("<")
        or re.search(r"(^|/)(site|dist)-packages/|/lib/python\d|/_pytest/", path) is not None
    )


def template(exception: str, message: str) -> str:
    """A message without what changes from run to run and, unless it is a missing name, without values in quotes."""
    if exception.rpartition(".")[2] in _NAMING:
        return volatile(message)
    return volatile(_QUOTED.sub("'…'", message))


def volatile(message: str) -> str:
    """A message without what changes from run to run: ids, times, directories, numbers, temporary names."""
    line = first_line(message)
    for pattern, word in _VOLATILE:
        line = pattern.sub(word, line)
    return _cut(line)


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
