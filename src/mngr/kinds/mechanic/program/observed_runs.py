"""Runs a test once with the recording plugin, and returns its commands, its checks and its outcome."""

from __future__ import annotations

import json
import os
import pkgutil
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

RUN_TIMEOUT = 300.0  # seconds for one run of a test, unless the job sets another limit
_RECORDER_MODULE = "mngr_mechanic_recorder"
_TAIL_LENGTH = 4000  # characters


@dataclass(frozen=True)
class ObservedCommand:
    """A command that the test ran, with its result."""

    path: str
    line: int
    command: str
    code: int
    out: str
    err: str
    names: dict[str, str]
    changed: dict[str, str | None]
    removed: list[str]
    transcript: str


@dataclass(frozen=True)
class ObservedCheck:
    """A check that the test made: of which command (by number), of which stream, with which arguments."""

    path: str
    line: int
    method: str
    args: list[Any]
    run: int | None
    stream: str
    text: str
    ok: bool


@dataclass(frozen=True)
class ObservedCase:
    """The run of one node id. A parametrized test has several."""

    test: str
    outcome: str  # pass, fail, error, skip
    runs: list[ObservedCommand]
    checks: list[ObservedCheck]
    exception: str = ""
    message: str = ""
    frames: list[list[Any]] = field(default_factory=list)

    @property
    def failed_check(self) -> ObservedCheck | None:
        """Return the check that ended the test, or None."""
        last = self.checks[-1] if self.checks else None
        return last if self.outcome == "fail" and last is not None and not last.ok else None


@dataclass(frozen=True)
class ObservedTestRun:
    """One run of a test. Outcomes: pass, fail, error (outside the test itself), skip, timeout, none (no such test)."""

    outcome: str
    cases: list[ObservedCase]
    seconds: float
    tail: str  # the end of pytest's own output
    uncollected: str = ""

    @property
    def first_failed_case(self) -> ObservedCase | None:
        return next((case for case in self.cases if case.outcome in ("fail", "error")), None)


def run_test(
    command: list[str], work_dir: str, on_poll: Callable[[], None] = lambda: None, timeout: float = RUN_TIMEOUT
) -> ObservedTestRun:
    """Run exactly this command in `work_dir`; only environment variables make pytest load the recording plugin."""
    recorder_dir = tempfile.mkdtemp(prefix="mechanic-")
    started_at = time.monotonic()
    try:
        _install_recorder(recorder_dir)
        code = _run_command(command, work_dir, recorder_dir, on_poll, timeout)
        rows = _read_rows(os.path.join(recorder_dir, "rows"))
        with open(os.path.join(recorder_dir, "out"), "rb") as file:
            tail = file.read().decode("utf-8", "replace")[-_TAIL_LENGTH:]
    finally:
        shutil.rmtree(recorder_dir, ignore_errors=True)
    return _build_test_run(code, rows, time.monotonic() - started_at, tail)


def _install_recorder(recorder_dir: str) -> None:
    source = pkgutil.get_data(
        "mngr.kinds.mechanic.program", "recording_pytest_plugin.py"
    )  # this also works inside the zip archive
    assert source is not None
    with open(os.path.join(recorder_dir, f"{_RECORDER_MODULE}.py"), "wb") as file:
        file.write(source)


def _build_environment(recorder_dir: str) -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = ":".join([recorder_dir, *filter(None, [env.get("PYTHONPATH")])])
    env["PYTEST_PLUGINS"] = ",".join([*filter(None, [env.get("PYTEST_PLUGINS")]), _RECORDER_MODULE])
    env["MNGR_MECHANIC_ROWS"] = os.path.join(recorder_dir, "rows")
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # otherwise Python may ignore an edit made within the same second
    return env


def _run_command(
    command: list[str], work_dir: str, recorder_dir: str, on_poll: Callable[[], None], timeout: float
) -> int | None:
    """Return the exit code, or None after the timeout. No process of the command's group survives."""
    with open(os.path.join(recorder_dir, "out"), "wb") as out:
        process = subprocess.Popen(
            command,
            cwd=work_dir,
            env=_build_environment(recorder_dir),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        deadline = time.monotonic() + timeout
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    return None
                on_poll()
                time.sleep(0.02)
            return process.returncode
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def _read_rows(path: str) -> list[dict[str, Any]]:
    """Return the rows that the recording plugin wrote, without an incomplete last row."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines[:-1]]


def _build_test_run(code: int | None, rows: list[dict[str, Any]], seconds: float, tail: str) -> ObservedTestRun:
    cases: list[ObservedCase] = []
    case_rows: list[dict[str, Any]] = []
    for row in rows:
        if row["event"] == "start":
            if case_rows:
                cases.append(_build_case(case_rows))
            case_rows = []
        if row["event"] != "uncollected":
            case_rows.append(row)
    if case_rows:
        cases.append(_build_case(case_rows))
    uncollected = "\n".join(row["message"] for row in rows if row["event"] == "uncollected")
    return ObservedTestRun(_decide_outcome(code, cases, uncollected), cases, seconds, tail, uncollected)


def _decide_outcome(code: int | None, cases: list[ObservedCase], uncollected: str) -> str:
    outcomes = {case.outcome for case in cases}
    if code is None:
        return "timeout"
    if uncollected or "error" in outcomes:
        return "error"
    if not cases:
        return "none"
    if "fail" in outcomes or code != 0:
        return "fail"
    return "pass" if "pass" in outcomes else "skip"


def _build_case(rows: list[dict[str, Any]]) -> ObservedCase:
    runs = [ObservedCommand(**_drop_field(row, "event")) for row in rows if row["event"] == "run"]
    checks = [ObservedCheck(**_drop_field(row, "event")) for row in rows if row["event"] == "check"]
    ends = [row for row in rows if row["event"] == "end"]
    failure = next((row for row in ends if row["outcome"] == "failed"), None)
    if failure is not None:
        outcome = "fail" if failure["when"] == "call" else "error"
        return ObservedCase(
            rows[0]["test"], outcome, runs, checks, failure["exception"], failure["message"], failure["frames"]
        )
    call = next((row for row in ends if row["when"] == "call"), None)
    if call is None and not any(row["outcome"] == "skipped" for row in ends):
        return ObservedCase(rows[0]["test"], "error", runs, checks, "", "pytest itself ended during the test")
    outcome = "pass" if call is not None and call["outcome"] == "passed" else "skip"
    return ObservedCase(rows[0]["test"], outcome, runs, checks)


def _drop_field(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
