"""Groups failures by root cause: by exception, location in the project's code, and message without volatile parts.

Too small groups cost an additional agent; too large groups hide one root cause behind another. Tests are therefore
grouped only on evidence outside the tests: a shared code location, or the error output of the program under test.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Mapping

from mngr.base.model import Struct
from mngr.tmr.runners.test_run import Failure, Frame, TestRun, first_line

# Failures that affect everything come first.
_FAILURE_KINDS = {
    "internal": "collect",
    "collect": "collect",
    "setup": "fixture",
    "call": "call",
    "teardown": "teardown",
}
_KIND_ORDER = ("collect", "fixture", "call", "teardown", "interrupted")
# In these errors the quoted name is what is missing. In all others a quoted value is incidental.
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
    """The features that failures with the same root cause share."""

    kind: str  # collect | fixture | call | teardown | program | timeout | crash
    exception: str
    frame: str  # PATH:LINE FUNCTION, or empty
    message: str

    @property
    def title(self) -> str:
        """Return the signature as one line."""
        location = f" in {self.frame}" if self.frame else ""
        return f"{self.exception or self.kind}{location}: {self.message}".rstrip(": ")[:160]


class RootCause(Struct):
    """A probable root cause and its affected tests."""

    id: str
    title: str
    signature: FailureSignature
    tests: list[str]
    is_shared: bool  # several affected tests: the root cause is its own task


def group_failures(runs: Mapping[str, TestRun]) -> list[RootCause]:
    """Return the root causes of the failed runs, which are given by test id.

    Shared root causes come first, then failures that affect everything, then the largest groups.
    """
    groups: dict[FailureSignature, list[str]] = {}
    for test, run in runs.items():
        groups.setdefault(compute_signature(run), []).append(test)
    root_causes = [
        RootCause(
            id=f"c{zlib.crc32(repr(signature).encode()):08x}",
            title=signature.title,
            signature=signature,
            tests=tests,
            is_shared=len(tests) > 1,
        )
        for signature, tests in groups.items()
    ]
    return sorted(
        root_causes,
        key=lambda root_cause: (
            not root_cause.is_shared,
            _rank_kind(root_cause.signature.kind),
            -len(root_cause.tests),
        ),
    )


def _rank_kind(kind: str) -> int:
    return _KIND_ORDER.index(kind) if kind in _KIND_ORDER else len(_KIND_ORDER)


def compute_signature(run: TestRun) -> FailureSignature:
    """Return the signature that a failed run shares with other runs of the same root cause."""
    if run.outcome == "crash":
        return FailureSignature(kind="crash", exception="", frame=run.test, message=remove_volatile_parts(run.why))
    failures = sorted(run.failures, key=lambda f: _rank_kind(_FAILURE_KINDS.get(f.when, f.when)))
    if run.outcome == "timeout":
        frame = _find_frame(failures[0], shared=True) if failures else None
        return FailureSignature(
            kind="timeout",
            exception="",
            frame=_format_frame(frame) or run.test,
            message="it did not finish in time",
        )
    if not failures:
        return FailureSignature(kind=run.outcome, exception="", frame=run.test, message=remove_volatile_parts(run.why))
    first = failures[0]
    return _sign_program_failure(first) or _sign_code_failure(
        first, _FAILURE_KINDS.get(first.when, first.when), run.test
    )


def _sign_code_failure(failure: Failure, kind: str, test: str) -> FailureSignature:
    """Return a signature from a failure's exception, location and message."""
    inner = _find_inner_error(failure)
    if inner is not None:  # the failure's text contains the traceback of another process
        exception, message, location = inner
        return FailureSignature(
            kind="program", exception=exception, frame=location, message=normalize_message(exception, message)
        )
    exception = failure.exception
    message = first_line(failure.message or failure.text.strip().rpartition("\n")[2])
    is_check = exception.rpartition(".")[2] == "AssertionError" or not exception
    frame = _find_frame(failure, shared=kind != "call" or not is_check)
    if kind == "collect":
        location = "" if frame is None or is_test_code(frame.path) else _format_frame(frame)
        return FailureSignature(kind=kind, exception=exception, frame=location, message=remove_volatile_parts(message))
    if frame is None or (is_test_code(frame.path) and is_check and kind == "call"):
        return FailureSignature(
            kind=kind, exception=exception, frame=_format_frame(frame) or test, message=_shorten_message(message)
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
    """Return the innermost frame in the project's code, or None.

    A frame in test code counts only if there is no other: the innermost one if `shared`, else the outermost.
    """
    project_frames = [frame for frame in failure.frames if frame.project]
    code_frames = [frame for frame in project_frames if not is_test_code(frame.path)]
    if code_frames:
        return code_frames[-1]
    if not project_frames:
        return None
    return project_frames[-1] if shared else project_frames[0]


def _is_own_test_frame(frame: Frame, test: str) -> bool:
    return test.rpartition("::")[2] == frame.function


def is_test_code(path: str) -> bool:
    """True when a file belongs to the tests, and not to the code under test."""
    return _TEST_PATH_PATTERN.search(path.replace(os.sep, "/")) is not None


def is_test_file(path: str) -> bool:
    """True when pytest collects tests from a file of this name."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _format_frame(frame: Frame | None) -> str:
    return "" if frame is None else f"{frame.path}:{frame.line} {frame.function}"


def _sign_program_failure(failure: Failure) -> FailureSignature | None:
    """Return a signature from a program that failed unexpectedly in a transcript of mngr.e2e.

    Returns None when the failure shows no such program, or a Python traceback instead.
    """
    match = _UNEXPECTED_EXIT.search(failure.message)
    if match is None or _find_inner_error(failure) is not None:
        return None
    rows = failure.message.rpartition("\n$ ")[2].splitlines()
    stderr_lines = [row[2:].strip() for row in rows if row.startswith("! ") and row[2:].strip()]
    if not stderr_lines:
        return None
    program = os.path.basename(match["command"].split()[0]) if match["command"].split() else ""
    return FailureSignature(
        kind="program",
        exception=f"exit code {match['code']}",
        frame=program,
        message=remove_volatile_parts(stderr_lines[-1]),
    )


def _find_inner_error(failure: Failure) -> tuple[str, str, str] | None:
    """Return (exception, message, location) of the last traceback of project code in a failure's text, or None."""
    if not failure.exception.endswith(("AssertionError", "CalledProcessError")):
        return None
    for text in (failure.message, *failure.sections.values()):
        traceback_lines = [match for match in _TRACEBACK_LINE.finditer(text) if not _is_outside_project(match[1])]
        if not traceback_lines:
            continue
        last_line = traceback_lines[-1]
        for row in text[last_line.end() :].splitlines():
            if exception_match := _EXCEPTION_LINE.match(row.rstrip()):
                location = f"{os.path.normpath(last_line[1])}:{last_line[2]} {last_line[3]}"
                return exception_match[1], exception_match[2] or "", location
    return None


def _is_outside_project(path: str) -> bool:
    """True when a file is not the project's. Paths in the clean room are relative to its work dir."""
    return path.startswith("<") or re.search(r"(^|/)(site|dist)-packages/|/lib/python\d|/_pytest/", path) is not None


def normalize_message(exception: str, message: str) -> str:
    """Return a message without volatile parts and, unless it names something missing, without quoted values."""
    if exception.rpartition(".")[2] in _NAME_ERRORS:
        return remove_volatile_parts(message)
    return remove_volatile_parts(_QUOTED_TEXT.sub("'…'", message))


def remove_volatile_parts(message: str) -> str:
    """Return a message's first line without ids, times, directories, numbers and temporary names."""
    line = first_line(message)
    for pattern, replacement in _VOLATILE_PATTERNS:
        line = pattern.sub(replacement, line)
    return _shorten_message(line)


def _shorten_message(line: str) -> str:
    return line if len(line) <= _MAX_MESSAGE else line[: _MAX_MESSAGE - 1] + "…"
