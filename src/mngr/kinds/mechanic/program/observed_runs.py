"""One run of a test with the probe in it: what its commands did, what was checked, and how it ended."""

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

RUN_TIMEOUT = 300.0  # seconds for one run of a test where nothing else is said
_PROBE_MODULE = "mngr_mechanic_probe"
_TAIL_LENGTH = 4000  # characters


@dataclass(frozen=True)
class ObservedCommand:
    """A command of the test."""

    path: str
    line: int
    command: str
    code: int
    out: str
    err: str
    names: dict[str, str]
    changed: dict[str, str | None]
    gone: list[str]
    transcript: str


@dataclass(frozen=True)
class ObservedCheck:
    """An expectation: of which command (by its number), of what of it, with which texts."""

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
    """One node id: a test has several when it has parameters."""

    test: str
    outcome: str  # pass, fail, error, skip
    runs: list[ObservedCommand]
    checks: list[ObservedCheck]
    exception: str = ""
    message: str = ""
    frames: list[list[Any]] = field(default_factory=list)

    @property
    def failed_check(self) -> ObservedCheck | None:
        """The expectation that ended it."""
        last = self.checks[-1] if self.checks else None
        return last if self.outcome == "fail" and last is not None and not last.ok else None


@dataclass(frozen=True)
class ObservedTestRun:
    """How it went: pass, fail, error (before or after the test itself), skip, timeout, none (no such test)."""

    outcome: str
    cases: list[ObservedCase]
    seconds: float
    tail: str  # how pytest's own output ends
    uncollected: str = ""

    @property
    def first_failed_case(self) -> ObservedCase | None:
        return next((case for case in self.cases if case.outcome in ("fail", "error")), None)


def run_test(
    command: list[str], work: str, between: Callable[[], None] = lambda: None, patience: float = RUN_TIMEOUT
) -> ObservedTestRun:
    """Run exactly this command in `work`; only variables of its environment say that the probe is to be loaded."""
    place = tempfile.mkdtemp(prefix="mechanic-")
    began = time.monotonic()
    try:
        _install_probe(place)
        code = _run_command(command, work, place, between, patience)
        rows = _read_rows(os.path.join(place, "rows"))
        with open(os.path.join(place, "out"), "rb") as file:
            tail = file.read().decode("utf-8", "replace")[-_TAIL_LENGTH:]
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return _build_test_run(code, rows, time.monotonic() - began, tail)


def _install_probe(place: str) -> None:
    source = pkgutil.get_data("mngr.kinds.mechanic.program", "pytest_probe.py")  # out of the archive, too
    assert source is not None
    with open(os.path.join(place, f"{_PROBE_MODULE}.py"), "wb") as file:
        file.write(source)


def _build_environment(place: str) -> dict[str, str]:
    env = dict(os.environ)
    env["PYTHONPATH"] = ":".join([place, *filter(None, [env.get("PYTHONPATH")])])
    env["PYTEST_PLUGINS"] = ",".join([*filter(None, [env.get("PYTEST_PLUGINS")]), _PROBE_MODULE])
    env["MNGR_MECHANIC_ROWS"] = os.path.join(place, "rows")
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # a file that is edited within one second of the clock is read again
    return env


def _run_command(command: list[str], work: str, place: str, between: Callable[[], None], patience: float) -> int | None:
    """The exit code; None when it took too long. Nothing of it outlives this."""
    with open(os.path.join(place, "out"), "wb") as out:
        process = subprocess.Popen(
            command,
            cwd=work,
            env=_build_environment(place),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        deadline = time.monotonic() + patience
        try:
            while process.poll() is None:
                if time.monotonic() > deadline:
                    return None
                between()
                time.sleep(0.02)
            return process.returncode
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()


def _read_rows(path: str) -> list[dict[str, Any]]:
    """What the probe said; a last row that was cut off is left out."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines[:-1]]


def _build_test_run(code: int | None, rows: list[dict[str, Any]], seconds: float, tail: str) -> ObservedTestRun:
    cases: list[ObservedCase] = []
    part: list[dict[str, Any]] = []
    for row in rows:
        if row["event"] == "start":
            if part:
                cases.append(_build_case(part))
            part = []
        if row["event"] != "uncollected":
            part.append(row)
    if part:
        cases.append(_build_case(part))
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
    bad = next((row for row in ends if row["outcome"] == "failed"), None)
    if bad is not None:
        outcome = "fail" if bad["when"] == "call" else "error"
        return ObservedCase(rows[0]["test"], outcome, runs, checks, bad["exception"], bad["message"], bad["frames"])
    called = next((row for row in ends if row["when"] == "call"), None)
    if called is None and not any(row["outcome"] == "skipped" for row in ends):
        return ObservedCase(rows[0]["test"], "error", runs, checks, "", "pytest ended in the middle of it")
    outcome = "pass" if called is not None and called["outcome"] == "passed" else "skip"
    return ObservedCase(rows[0]["test"], outcome, runs, checks)


def _drop_field(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != name}
