"""A pytest plugin that records a test's commands, its checks and its outcome for the mechanic.

The project's own Python loads this single file, so it imports nothing of mngr but the package of the fixture.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

ROWS_PATH = os.environ.get("MNGR_MECHANIC_ROWS", os.devnull)
EXPECTATION_METHODS = (
    "to_succeed",
    "to_fail",
    "to_have_exit_code",
    "to_contain",
    "not_to_contain",
    "to_match",
    "not_to_match",
    "to_be_empty",
    "to_equal",
    "to_match_lines",
    "to_match_tree",
)
MOST_FILES, MOST_BYTES = 300, 20_000  # limits for the files of a watched directory and for the size of each
_is_nested = False  # True inside a check: checks that another check calls are not recorded
_results: list[Any] = []  # results of this test, in order; kept alive because they are found by identity


def _write_row(event: str, **data: Any) -> None:
    row = json.dumps({"event": event, **data}, default=str) + "\n"
    fd = os.open(ROWS_PATH, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, row.encode("utf-8", "backslashreplace"))
    finally:
        os.close(fd)


def _find_caller() -> dict[str, Any]:
    """Return the file and line that called, without the frames of the fixture's package and of this plugin."""
    internal_paths = (__file__, os.path.join("mngr", "e2e") + os.sep, functools.__file__)
    frame = sys._getframe(1)
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in internal_paths):
        frame = frame.f_back
    return {"path": frame.f_code.co_filename, "line": frame.f_lineno}


def _read_files(directory: str) -> dict[str, str | None]:
    """Return the text of each visible file below a directory, by path; None for a file that is not a short text."""
    texts: dict[str, str | None] = {}
    for parent, folders, names in os.walk(directory):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            path = os.path.join(parent, name)
            if len(texts) < MOST_FILES and os.path.isfile(path) and not os.path.islink(path):
                texts[os.path.relpath(path, directory)] = _read_short_text(path)
    return texts


def _read_short_text(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
        return data.decode("utf-8") if len(data) <= MOST_BYTES and b"\0" not in data else None
    except (OSError, UnicodeDecodeError):
        return None


def _record_runs(run: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(run)
    def watched(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        cwd, caller = str(self.cwd), _find_caller()
        before = _read_files(cwd)
        result = run(self, *args, **options)
        after = _read_files(cwd)
        _results.append(result)
        names = {"HOME": str(self.home), "CWD": cwd, "ROOT": str(self.root)}
        _write_row(
            "run",
            **caller,
            command=result.command,
            code=result.exit_code,
            out=result.stdout,
            err=result.stderr,
            names=names,
            changed={name: text for name, text in after.items() if name not in before or before[name] != text},
            removed=sorted(set(before) - set(after)),
            transcript=str(self.transcript.path),
        )
        return result

    return watched


def _record_checks(name: str, check: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(check)
    def watched(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True
        global _is_nested
        if _is_nested:
            return check(self, *args, **options)
        _is_nested = True
        ok = False
        try:
            result = check(self, *args, **options)
            ok = True
            return result
        finally:
            _is_nested = False
            run, stream = _find_origin(self._subject)
            texts = [arg for arg in args if isinstance(arg, (str, int))]
            subject = self._subject if isinstance(self._subject, str) else ""
            _write_row(
                "check",
                **_find_caller(),
                method=name,
                args=texts,
                run=run,
                stream=stream,
                text=subject,
                ok=ok,
            )

    return watched


def _find_origin(subject: Any) -> tuple[int | None, str]:
    """Return the number of the command that a check's subject comes from, and the stream."""
    for number, result in enumerate(_results):
        for stream in ("stdout", "stderr", "output"):
            if getattr(result, stream) is subject:
                return number, stream
        if result is subject:
            return number, "result"
    return None, type(subject).__name__


try:
    from mngr.e2e.expectations.expectation import Expectation
    from mngr.e2e.session import E2eSession
except ImportError:  # without the fixture only the outcomes of the tests are recorded
    pass
else:
    E2eSession.run = _record_runs(E2eSession.run)  # type: ignore[method-assign]
    for _name in EXPECTATION_METHODS:
        if hasattr(Expectation, _name):
            setattr(Expectation, _name, _record_checks(_name, getattr(Expectation, _name)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _results.clear()
    _write_row("start", test=item.nodeid)
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    data: dict[str, Any] = {"test": item.nodeid, "when": report.when, "outcome": report.outcome}
    if call.excinfo is not None and report.outcome == "failed":
        data["exception"] = call.excinfo.typename
        data["message"] = str(call.excinfo.value)[:MOST_BYTES]
        data["frames"] = [[str(entry.path), entry.lineno + 1, entry.name] for entry in call.excinfo.traceback]
    _write_row("end", **data)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write_row("uncollected", test=report.nodeid, message=str(report.longrepr)[:MOST_BYTES])
