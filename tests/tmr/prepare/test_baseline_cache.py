"""Tests which results of an earlier baseline count again, and that their recordings come along."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.tmr.prepare.baseline_cache import BaselineCache, KnownRuns
from mngr.tmr.runners.test_run import TestFunction, TestRun
from tests.conftest import MngrProgram, run_git
from tests.support.journal_file import read_json_rows

DAY = 86400.0
GOOD = TestFunction(id="test_a.py::test_good", ids=["test_a.py::test_good"], path="test_a.py", name="test_good")
BAD = TestFunction(id="test_a.py::test_bad", ids=["test_a.py::test_bad"], path="test_a.py", name="test_bad")


def new_run(test: TestFunction, outcome: str, *artifacts: str) -> TestRun:
    return TestRun(
        test=test.id, seen="suite", outcome=outcome, seconds=0.1, exit_code=0, ids=dict.fromkeys(test.ids, outcome),
        command="pytest", artifacts=list(artifacts),
    )  # fmt: skip


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., BaselineCache]:
    """Return a function that saves runs in the cache and returns it."""

    def save_runs(*runs: TestRun, reused: dict[str, KnownRuns] | None = None) -> BaselineCache:
        cache = BaselineCache(str(tmp_path / "cache"), "environment", "tree")
        runs_by_test = {run.test: [run] for run in runs}
        cache.save([GOOD, BAD], runs_by_test, reused or {}, lambda test, number: str(tmp_path / test.name))
        return cache

    return save_runs


def test_the_runs_of_the_same_tree_and_environment_count_again(save: Callable[..., BaselineCache]) -> None:
    cache = save(new_run(GOOD, "pass"), new_run(BAD, "fail"))
    found = cache.find([GOOD, BAD])
    assert {test: entry.runs[0].outcome for test, entry in found.items()} == {GOOD.id: "pass", BAD.id: "fail"}


@pytest.mark.parametrize(("environment", "tree"), [("other", "tree"), ("environment", "other")])
def test_runs_of_another_tree_or_environment_do_not_count(
    save: Callable[..., BaselineCache], tmp_path: Path, environment: str, tree: str
) -> None:
    save(new_run(GOOD, "pass"))
    assert BaselineCache(str(tmp_path / "cache"), environment, tree).find([GOOD]) == {}


def test_one_failure_makes_a_baseline_useless_where_the_outside_counts(save: Callable[..., BaselineCache]) -> None:
    cache = save(new_run(GOOD, "pass"), new_run(BAD, "fail"))
    assert cache.find([GOOD, BAD], only_if_green=True) == {}
    assert list(cache.find([GOOD], only_if_green=True)) == [GOOD.id]


def test_a_test_with_other_parameters_runs_again(save: Callable[..., BaselineCache]) -> None:
    cache = save(new_run(GOOD, "pass"))
    assert cache.find([GOOD.replace(ids=[f"{GOOD.id}[1]", f"{GOOD.id}[2]"])]) == {}


def test_a_test_whose_parameters_have_other_names_in_each_process_does_not_run_again(
    save: Callable[..., BaselineCache],
) -> None:
    first = GOOD.replace(ids=[f"{GOOD.id}[tea-expected0]", f"{GOOD.id}[pear-expected1]"])
    cache = save(new_run(first, "pass").replace(missing=[f"{GOOD.id}[tea-expected1]", f"{GOOD.id}[pear-expected0]"]))
    second = GOOD.replace(ids=[f"{GOOD.id}[pear-expected0]", f"{GOOD.id}[tea-expected1]"])
    assert list(cache.find([second])) == [GOOD.id]


def test_runs_do_not_become_younger_when_they_are_used_again(save: Callable[..., BaselineCache]) -> None:
    old = KnownRuns(at=time.time() - DAY + 60, runs=[new_run(GOOD, "pass")])
    cache = save(new_run(GOOD, "pass"), reused={GOOD.id: old})
    assert cache.find([GOOD])[GOOD.id].at == old.at


def test_runs_older_than_a_day_do_not_count(save: Callable[..., BaselineCache]) -> None:
    old = KnownRuns(at=time.time() - DAY - 60, runs=[new_run(GOOD, "pass")])
    assert save(new_run(GOOD, "pass"), reused={GOOD.id: old}).find([GOOD]) == {}


def test_artifacts_survive_the_run_that_made_them(save: Callable[..., BaselineCache], tmp_path: Path) -> None:
    (tmp_path / GOOD.name / "session").mkdir(parents=True)
    (tmp_path / GOOD.name / "session" / "transcript.txt").write_text("$ ls\n")
    cache = save(new_run(GOOD, "pass", "session"))
    shutil.rmtree(tmp_path / GOOD.name)
    cache.restore_artifacts(GOOD, 0, str(tmp_path / "new"))
    assert (tmp_path / "new" / "session" / "transcript.txt").read_text() == "$ ls\n"


def test_a_damaged_cache_counts_as_empty(save: Callable[..., BaselineCache], tmp_path: Path) -> None:
    cache = save(new_run(GOOD, "pass"))
    (file,) = (tmp_path / "cache").rglob("runs.json")
    file.write_text('{"tests": 1}')
    assert cache.find([GOOD]) == {}


@pytest.fixture
def project(mngr: MngrProgram) -> MngrProgram:
    """Return a project with a test that records its commands."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    (mngr.repo / "test_says.py").write_text("def test_says(e2e):\n    e2e.run('echo hello')\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a test")
    return mngr


def list_reused(project: MngrProgram, name: str) -> list[bool]:
    rows = read_json_rows(RunDir(str(project.repo), name).journal)
    return [bool(row.get("reused_from")) for row in rows if row["type"] == "baseline_run"]


@pytest.mark.agents
def test_a_second_run_reuses_results_and_recordings_until_the_tree_changes(project: MngrProgram) -> None:
    project("tmr", "run", "--dry-run")
    steps = json.dumps([{"result": {"outcome": "unchanged"}}])
    words = ("tmr", "run", "--agent", "player", "--agent-arg", steps, "--no-integrate")
    message = project(*words, "--name", "second").err
    assert "1 test has the results of 20" in message and list_reused(project, "second") == [True, True]
    tasks = Path(RunDir(str(project.repo), "second").path, "report", "tasks")
    assert "echo hello" in (tasks / f"{make_slug('test_says.py::test_says')}.html").read_text()
    (project.repo / "test_says.py").write_text("def test_says(e2e):\n    e2e.run('echo other')\n")
    run_git(project.repo, "commit", "-qam", "another tree")
    project(*words, "--name", "third")
    assert list_reused(project, "third") == [False, False]


@pytest.mark.agents
def test_fresh_runs_the_tests_again(project: MngrProgram) -> None:
    assert "has the results of" not in project("tmr", "run", "--dry-run").err
    assert "has the results of" in project("tmr", "run", "--dry-run").err
    assert "has the results of" not in project("tmr", "run", "--dry-run", "--fresh").err
