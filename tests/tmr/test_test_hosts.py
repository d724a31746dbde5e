"""Tests a run whose tests are executed on hosts that mngr creates for them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.testkit.contract.mngr_program import commit_file
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.replaceable_room import run_in_room
from mngr.tmr.integrate.suite import Suite
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.pytest.trials import Trial
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.claim_runs import ClaimRunner
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.conftest import BIN_DIR, MngrProgram, wait_for
from tests.providers.shared.test_on_demand import machines, root
from tests.support.journal_file import read_json_rows

__all__ = ["root"]
pytestmark = pytest.mark.hosts

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
COMMAND = ("tmr", "run", "--name", "r", "--dry-run", "--test-on", ".toy", "--max-agents", "2", "--runs", "1")
QUICK = "def test_{name}():\n    assert {value}\n"
# It reports its work dir once, and then ends only when somebody allows it.
SLOW = """\
import os, pathlib, time

def test_slow():
    with pathlib.Path({log!r}).open("a") as log:
        log.write(os.getcwd() + "\\n")
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.02)
"""


@pytest.fixture
def project(mngr: MngrProgram, root: Path) -> MngrProgram:
    """Return a project with one failing test, whose tests may see the whole machine."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    for name, value in (("right", True), ("wrong", False)):
        commit_file(mngr.repo, f"test_{name}.py", QUICK.format(name=name, value=value))
    return mngr


# An agent that changes its test, so that mngr re-runs the test.
PLAY = [
    {"run": "echo '# seen' >>$(echo \"$TEST\" | cut -d: -f1)"},
    {"run": "git -c user.name=a -c user.email=a@example.org commit -qam '[IMPROVE_TEST] Seen'"},
    {"result": {"outcome": "improved", "before": "pass", "after": "pass"}},
]


def list_runs(project: MngrProgram) -> list[dict[str, Any]]:
    """Return the runs of tests in the journal."""
    rows = read_json_rows(str(project.repo / ".mngr/runs/r/journal.jsonl"))
    return [row["run"] for row in rows if row["type"] == "baseline_run"]


def start_run(project: MngrProgram) -> subprocess.Popen[bytes]:
    """Start a run that needs no agent, because all tests pass."""
    commit_file(project.repo, "test_wrong.py", QUICK.format(name="wrong", value=True))
    options = ("--only", "failing", "--no-integrate", "--isolation", "off", "--agent", "player")
    argv = [str(BIN_DIR / "mngr"), *(word for word in COMMAND if word != "--dry-run"), *options]
    return subprocess.Popen(argv, cwd=project.repo, env=project.env)


def end_machine(machine: Path) -> None:
    """Remove a machine with everything that runs on it."""
    gone = machine.rename(machine.with_name(f"gone-{machine.name}"))  # so that nobody can write there meanwhile
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"HOME={machine}".encode() in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
    shutil.rmtree(gone, ignore_errors=True)


def test_the_baseline_runs_on_created_hosts_and_gives_the_same_verdicts(project: MngrProgram, root: Path) -> None:
    log = root.parent / "log"
    where = f"import os, pathlib\n\ndef test_where():\n    pathlib.Path({str(log)!r}).write_text(os.getcwd())\n"
    commit_file(project.repo, "test_where.py", where)
    remote = project.run_json(*COMMAND, "--isolation", "off")
    assert log.read_text().startswith(f"{root}/tmr-r-clean-room-")
    assert machines(root) == {}
    local = project.run_json("tmr", "run", "--name", "l", "--dry-run", "--runs", "1", "--fresh", "--isolation", "off")
    assert not log.read_text().startswith(str(root))
    kept_fields = ("tests", "failing", "skipped")
    assert {key: remote[key] for key in kept_fields} == {key: local[key] for key in kept_fields}


def test_a_lost_host_costs_only_its_unfinished_shard(project: MngrProgram, root: Path) -> None:
    log, go = root.parent / "log", root.parent / "go"
    commit_file(project.repo, "test_slow.py", SLOW.format(log=str(log), go=str(go)))
    process = start_run(project)
    wait_for(log.exists, 60)
    end_machine(root / Path(log.read_text().strip()).relative_to(root).parts[0])
    go.touch()
    assert process.wait(60) == 0
    first, second = log.read_text().split()
    assert first != second
    runs = [(run["test"].rpartition("::")[2], run.get("seen")) for run in list_runs(project)]
    assert sorted(runs) == [("test_right", "suite"), ("test_slow", "suite"), ("test_wrong", "suite")]
    assert machines(root) == {}


def test_a_killed_run_repeats_no_finished_shard_and_leaves_no_host(project: MngrProgram, root: Path) -> None:
    log, go = root.parent / "log", root.parent / "go"
    commit_file(project.repo, "test_slow.py", SLOW.format(log=str(log), go=str(go)))
    process = start_run(project)
    wait_for(lambda: log.exists() and len(list_runs(project)) >= 1, 60)
    done = [run["test"] for run in list_runs(project)]
    process.kill()
    process.wait()
    assert machines(root)
    go.touch()
    project("tmr", "resume", "r")
    in_suite = [run["test"] for run in list_runs(project) if run.get("seen") == "suite"]
    assert [in_suite.count(test) for test in done] == [1] * len(done) and len(in_suite) == 3
    project("tmr", "clean", "r")
    assert machines(root) == {}


def test_the_users_settings_choose_the_hosts_of_the_tests(project: MngrProgram, root: Path) -> None:
    log = root.parent / "log"
    where = f"import os, pathlib\n\ndef test_where():\n    pathlib.Path({str(log)!r}).write_text(os.getcwd())\n"
    commit_file(project.repo, "test_where.py", where)
    project("config", "set", "--user", "tmr.test_on", ".toy")
    project("tmr", "run", "--name", "r", "--dry-run", "--runs", "1", "--isolation", "off")
    assert log.read_text().startswith(f"{root}/tmr-r-clean-room-")


def test_a_baseline_ends_although_its_last_host_waits_for_a_place(project: MngrProgram, root: Path) -> None:
    project.env["MNGR__PROVIDERS__TOY__PLACES"] = "1"
    assert project.run_json(*COMMAND, "--isolation", "off")["tests"] == 2
    assert machines(root) == {}


def test_agents_and_tests_share_places_and_the_budget_counts_both(project: MngrProgram, root: Path) -> None:
    project.env.update(MNGR__PROVIDERS__TOY__PLACES="2", MNGR__PROVIDERS__TOY__COST_PER_HOUR="3600")
    for name in ("wrong", "third"):
        commit_file(project.repo, f"test_{name}.py", QUICK.format(name=name, value=True))
    words = [word for word in COMMAND if word != "--dry-run"] + ["--on", ".toy", "--agents-per-host", "1"]
    words += ["--isolation", "off", "--verify-runs", "1", "--canary", "1", "--agent", "player"]
    project(*words, "--agent-arg", json.dumps(PLAY), timeout=120)
    status = project.run_json("tmr", "status", "r")
    assert [(task["state"], task["verdict"]) for task in status["tasks"]] == [("settled", "confirmed")] * 3
    rows = read_json_rows(str(project.repo / ".mngr/runs/r/journal.jsonl"))
    test_hosts = {row["host"] for row in rows if row["type"] == "host" and "clean-room" in row["host"]}
    assert len(test_hosts) >= 2  # of the baseline and of the receipts
    assert status["budget"]["hosts"]["made"] >= len(test_hosts) + 1 and status["budget"]["hosts"]["running"] == 0
    assert machines(root) == {}


# It reports its work dir when it is loaded, and then waits until somebody allows it to go on.
SLOW_FILE = """\
import os, pathlib, time

with pathlib.Path({log!r}).open("a") as log:
    log.write(os.getcwd() + "\\n")
while not pathlib.Path({go!r}).exists():
    time.sleep(0.02)

def test_one():
    pass
"""
ONE = TestFunction(id="test_file.py::test_one", ids=["test_file.py::test_one"], path="test_file.py", name="test_one")


def collect(rooms: CleanRoomPool, commit: str) -> list[str]:
    runner = PytestRunner(PytestOptions(pytest=PYTEST))
    return [test.id for test in run_in_room(rooms, commit, runner.collect).tests]


def make_receipt(rooms: CleanRoomPool, commit: str) -> list[str]:
    request = VerifyRequest(test=ONE, commit=commit, base=commit)
    receipt = verify(rooms, request, VerifyOptions(pytest=PYTEST, runs=1))
    return [receipt.test] if receipt.verdict == "confirmed" else [receipt.reason]


def experiment(rooms: CleanRoomPool, commit: str) -> list[str]:
    request, options = VerifyRequest(test=ONE, commit=commit, base=commit), VerifyOptions(pytest=PYTEST, runs=1)
    trials = [Trial(tests=ONE.ids, timeout=60.0)]
    with ClaimRunner(rooms, request, options, cache=None, artifacts_dir=None, on_run=None) as runner:
        return [name for run in runner.run_trials(trials, 60.0) if run is not None for name in run.run.ids]


def run_suite(rooms: CleanRoomPool, commit: str) -> list[str]:
    plan, cache = RunPlan(base=commit, pytest=PYTEST), ResultCache(rooms.repo, "suite")
    suite = Suite(rooms.fleet.context.local_host, rooms.repo, plan, rooms, cache, {})
    return [test for test, outcome in suite.rerun_all(commit).outcomes.items() if outcome == "pass"]


@pytest.mark.parametrize("work", [collect, make_receipt, experiment, run_suite])
def test_work_is_repeated_on_a_new_host_if_a_host_is_lost(
    mngr: MngrProgram, root: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[CleanRoomPool, str], list[str]]
) -> None:
    for name, value in mngr.env.items():
        monkeypatch.setenv(name, value)
    for path in reversed(mngr.env["PYTHONPATH"].split(":")):
        monkeypatch.syspath_prepend(path)
    log, go = root.parent / "log", root.parent / "go"
    commit = commit_file(mngr.repo, "test_file.py", SLOW_FILE.format(log=str(log), go=str(go)))
    rooms = CleanRoomPool(
        Fleet(str(mngr.home), cwd=str(mngr.repo)), "r", str(mngr.repo), CleanRoomOptions(on="@.toy"), at_once=1
    )
    with contextlib.closing(rooms), concurrent.futures.ThreadPoolExecutor(1) as threads:
        result = threads.submit(work, rooms, commit)
        wait_for(lambda: log.exists() or result.done(), 60)
        assert log.exists(), result.result()
        lost = Path(log.read_text().strip()).relative_to(root).parts[0]
        end_machine(root / lost)
        go.touch()
        assert result.result(120) == [ONE.id]
    used = {Path(line).relative_to(root).parts[0] for line in log.read_text().split()}
    assert len(used) == 2 and machines(root) == {}
