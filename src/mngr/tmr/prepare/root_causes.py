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

from mngr.base.model import Struct
from mngr.tmr.cleanroom.test_run import Failure, Frame, TestRun, first_line

# What is broken for all comes first.
_FAILURE_KINDS = {
    "internal": "collect",
    "collect": "collect",
    "setup": "fixture",
    "call": "call",
    "teardown": "teardown",
}
_KIND_ORDER = ("collect", "fixture", "call", "teardown", "interrupted")
# Of these the name in quotes is what is missing; of all others a value in quotes is one of many.
_NAME_ERRORS = (
    "KeyError",
    "AttributeError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "UnboundLocalError",
    "FileNotFoundError",
)
_TEST_PATH_PATTERN = re.compile(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$")
_TRACEBACK_LINE = re.compile(r'^[!\s]*File "([^"\n]+)", line (\d+), in (\S+)\s*$', re.MULTILINE)
_EXCEPTION_LINE = re.compile(
    r"^[!\s]*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|[a-z]))(?:: (.*))?$"
)
_UNEXPECTED_EXIT = re.compile(
    r"^\$ (?P<command>.*)\nthe exit code is (?P<code>-?[1-9]\d*), expected \d+$", re.MULTILINE
)
_VOLATILE_PATTERNS = (
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
_QUOTED_TEXT = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"|`[^`\n]*`")
_MAX_MESSAGE = 300


class FailureSignature(Struct):
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


class RootCause(Struct):
    """Tests that fail for one cause, as far as can be told."""

    id: str
    title: str
    signature: FailureSignature
    tests: list[str]
    shared: bool  # more than one test: a task of its own, with these as witnesses

    def to_dict(self) -> dict[str, Any]:
        """As it stands in clusters.json."""
        return {**super().to_dict(), "signature": self.signature.to_dict()}


def group_failures(runs: Mapping[str, TestRun]) -> list[RootCause]:
    """The causes of failed runs, by test id; the one with most tests first, what is broken for all before the rest."""
    groups: dict[FailureSignature, list[str]] = {}
    for test, run in runs.items():
        groups.setdefault(compute_signature(run), []).append(test)
    found = [
        RootCause(
            id=f"c{zlib.crc32(repr(found).encode()):08x}",
            title=found.title,
            signature=found,
            tests=tests,
            shared=len(tests) > 1,
        )
        for found, tests in groups.items()
    ]
    return sorted(found, key=lambda c: (not c.shared, _rank_kind(c.signature.kind), -len(c.tests)))


def _rank_kind(kind: str) -> int:
    return _KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER)


def compute_signature(run: TestRun) -> FailureSignature:
    """What a failed run has in common with others of the same cause."""
    if run.outcome == "crash":
        return FailureSignature(kind="crash", exception="", frame=run.test, message=remove_volatile_parts(run.why))
    failures = sorted(run.failures, key=lambda f: _rank_kind(_FAILURE_KINDS.get(f.when, f.when)))
    if run.outcome == "timeout":
        frame = _find_frame(failures[0], shared=True) if failures else None
        return FailureSignature(
            kind="timeout",
            exception="",
            frame=_format_frame(frame) or run.test,
            message="it did not end in time",
        )
    if not failures:
        return FailureSignature(kind=run.outcome, exception="", frame=run.test, message=remove_volatile_parts(run.why))
    first = failures[0]
    return _sign_program_failure(first) or _sign_code_failure(
        first, _FAILURE_KINDS.get(first.when, first.when), run.test
    )


def _sign_code_failure(failure: Failure, kind: str, test: str) -> FailureSignature:
    inner = _find_inner_error(failure)
    if inner is not None:  # the traceback of another process, in what the test shows
        exception, message, where = inner
        return FailureSignature(
            kind="program", exception=exception, frame=where, message=normalize_message(exception, message)
        )
    exception, message = (
        failure.exception,
        first_line(failure.message or failure.text.strip().rpartition("\n")[2]),
    )
    is_check = exception.rpartition(".")[2] == "AssertionError" or not exception
    frame = _find_frame(failure, shared=kind != "call" or not is_check)
    if kind == "collect":
        where = "" if frame is None or is_test_code(frame.path) else _format_frame(frame)
        return FailureSignature(kind=kind, exception=exception, frame=where, message=remove_volatile_parts(message))
    if frame is None or (is_test_code(frame.path) and is_check and kind == "call"):
        return FailureSignature(
            kind=kind, exception=exception, frame=_format_frame(frame) or test, message=_shorten(message)
        )
    if is_test_code(frame.path) and kind == "call" and _is_own_test_frame(frame, test):
        return FailureSignature(
            kind=kind, exception=exception, frame=_format_frame(frame), message=remove_volatile_parts(message)
        )
    return FailureSignature(
        kind=kind,
        exception=exception,
        frame=_format_frame(frame),
        message=normalize_message(exception, message),
    )


def _find_frame(failure: Failure, *, shared: bool) -> Frame | None:
    """The innermost place in the project's code; one in its tests only if there is no other, and then a test's own unless `shared`."""
    own = [frame for frame in failure.frames if frame.project]
    code = [frame for frame in own if not is_test_code(frame.path)]
    if code:
        return code[-1]
    return (own[-1] if shared else own[0]) if own else None


def _is_own_test_frame(frame: Frame, test: str) -> bool:
    return test.rpartition("::")[2] == frame.function


def is_test_code(path: str) -> bool:
    """Whether a file belongs to the tests and not to what they test."""
    return _TEST_PATH_PATTERN.search(path.replace(os.sep, "/")) is not None


def is_test_file(path: str) -> bool:
    """Whether pytest looks for tests in a file of this name."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _format_frame(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame.path}:{frame.line} {frame.function}"


def _sign_program_failure(failure: Failure) -> FailureSignature | None:
    """What a program said that should have succeeded and did not, as a transcript of mngr.e2e shows it."""
    found = _UNEXPECTED_EXIT.search(failure.message)
    if found is None or _find_inner_error(failure) is not None:
        return None
    rows = failure.message.rpartition("\n$ ")[2].splitlines()
    said = [row[2:].strip() for row in rows if row.startswith("! ") and row[2:].strip()]
    if not said:
        return None
    program = os.path.basename(found["command"].split()[0]) if found["command"].split() else ""
    return FailureSignature(
        kind="program",
        exception=f"exit code {found['code']}",
        frame=program,
        message=remove_volatile_parts(said[-1]),
    )


def _find_inner_error(failure: Failure) -> tuple[str, str, str] | None:
    """(exception, message, place) of the last Python traceback in what a check says, if it is of the project's code."""
    if not failure.exception.endswith(("AssertionError", "CalledProcessError")):
        return None
    for text in (failure.message, *failure.sections.values()):
        trace = [found for found in _TRACEBACK_LINE.finditer(text) if not _is_outside_project(found[1])]
        if not trace:
            continue
        last = trace[-1]
        for row in text[last.end() :].splitlines():
            if raised := _EXCEPTION_LINE.match(row.rstrip()):
                place = f"{os.path.normpath(last[1])}:{last[2]} {last[3]}"
                return raised[1], raised[2] or "", place
    return None


def _is_outside_project(path: str) -> bool:
    """Whether a file is not the project's; what is in the room is named from its work dir."""
    return path.startswith("<") or re.search(r"(^|/)(site|dist)-packages/|/lib/python\d|/_pytest/", path) is not None


def normalize_message(exception: str, message: str) -> str:
    """A message without what changes from run to run and, unless it is a missing name, without values in quotes."""
    if exception.rpartition(".")[2] in _NAME_ERRORS:
        return remove_volatile_parts(message)
    return remove_volatile_parts(_QUOTED_TEXT.sub("'…'", message))


def remove_volatile_parts(message: str) -> str:
    """A message without what changes from run to run: ids, times, directories, numbers, temporary names."""
    line = first_line(message)
    for pattern, word in _VOLATILE_PATTERNS:
        line = pattern.sub(word, line)
    return _shorten(line)


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_MESSAGE else line[: _MAX_MESSAGE - 1] + "…"
