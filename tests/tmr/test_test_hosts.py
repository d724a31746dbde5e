"""Tests a run whose tests are executed on hosts that mngr creates for them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import commit_file
from tests.conftest import BIN_DIR, MngrProgram, wait_for
from tests.providers.shared.test_on_demand import machines, root
from tests.support.journal_file import read_json_rows

__all__ = ["root"]
pytestmark = pytest.mark.hosts

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
