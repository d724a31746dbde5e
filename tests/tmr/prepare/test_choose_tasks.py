"""Tests which passing tests become tasks, and what the plan says about the others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mngr.base.paths import Home
from mngr.tmr.prepare.choose_tasks import PassingTest, RankFacts, rank_tests
from mngr.tmr.prepare.estimate import Estimate, PlannedTask, SkippedTest
from mngr.tmr.prepare.history.audit_outcomes import AuditedTestFile
from mngr.tmr.prepare.journal_facts import BaselineDone
from tests.conftest import MngrProgram, run_git

TESTS = [PassingTest(id=f"{name}.py::test", path=f"{name}.py", seconds=1.0) for name in "abc"]
A, B, C = TESTS
PLAIN = "def test_{name}():\n    pass\n"


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        (RankFacts(citing={C.id}, weak={B.id}), C),
        (RankFacts(weak={B.id}, changed_at={A.path: 9}), B),
        (RankFacts(changed_at={A.path: 1, B.path: 9}), B),
    ],
    ids=["cites the tutorial", "weak", "changed recently"],
)
def test_the_reasons_for_a_task_have_an_order(facts: RankFacts, first: PassingTest) -> None:
    assert rank_tests(TESTS, facts)[0] == first


def test_the_slowest_of_equal_tests_comes_first() -> None:
    assert rank_tests([A, B.replace(seconds=2.0), C], RankFacts())[0].id == B.id


def test_only_tests_with_a_gap_in_their_last_audit_are_weak(tmp_path: Path) -> None:
    audits = AuditedTestFile(Home(str(tmp_path / "home")), str(tmp_path))
    audits.add({"a": "vacuous", "b": "unguarded", "c": "vacuous"})
    audits.add({"c": "guarded", "d": "failing"})
    assert audits.list_weak() == {"a", "b"}


@pytest.fixture
def project(mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch) -> MngrProgram:
    """Return a project with two failing tests and four passing ones, of which test_new has the latest commit."""
    mngr.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    for name in ("one", "two", "three"):
        (mngr.repo / f"test_{name}.py").write_text(PLAIN.format(name=name))
    (mngr.repo / "test_bad.py").write_text(
        "def test_bad():\n    assert [1] == [2]\n\n\ndef test_worse():\n    open('/no')\n"
    )
    run_git(mngr.repo, "add", "-A")
    with monkeypatch.context() as past:
        past.setenv("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z")
        run_git(mngr.repo, "commit", "-qm", "tests")
    (mngr.repo / "test_new.py").write_text(PLAIN.format(name="new"))
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a new test")
    return mngr


@pytest.mark.agents
def test_failing_tests_always_become_tasks_and_passing_ones_up_to_the_limit(project: MngrProgram) -> None:
    plan = project.run_json("tmr", "run", "--dry-run", "--max-tasks", "3")
    failing = ["test_bad.py::test_bad", "test_bad.py::test_worse"]
    assert [task["tests"] for task in plan["tasks"]] == [[test] for test in [*failing, "test_new.py::test_new"]]
    assert (plan["failing"], plan["passing"], plan["skipped_by_rank"]) == (2, 1, 3)
    assert {row["why"] for row in plan["skipped"]} == {"it passes, and 3 tasks come first (--max-tasks)"}
    only_failing = project.run_json("tmr", "run", "--dry-run", "--max-tasks", "0")
    assert [task["tests"] for task in only_failing["tasks"]] == [[test] for test in failing]


@pytest.mark.agents
def test_the_plan_says_what_is_chosen_what_is_left_and_how_to_get_the_rest(project: MngrProgram) -> None:
    project.env["MNGR__TMR__MAX_TASKS"] = "3"
    lines = project("tmr", "run", "--dry-run").out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("The run has "))
    assert lines[start : start + 3] == [
        "The run has 3 tasks: 0 shared root causes, 2 other tests that do not pass, 1 passing test.",
        "Without a task: 3 passing tests. Tests that cite the tutorial come first, then weak, recently changed and slow tests.",
        "To create tasks for them, too: mngr tmr run --max-tasks 6",
    ]
    assert len(project.run_json(*lines[start + 2].split()[7:], "--dry-run")["tasks"]) == 6


@pytest.mark.agents
def test_the_command_for_the_rest_repeats_the_other_options(project: MngrProgram) -> None:
    words = ["test_new.py", "test_one.py", "--dry-run", "--name", "first", "--max-tasks=1", "--runs", "1"]
    plan = project.run_json("tmr", "run", *words, "--", "-k", "not bad")
    rest = "test_new.py test_one.py --runs 1 --max-tasks 2 -- -k 'not bad'"
    assert plan["more_command"] == f"mngr tmr run --format json {rest}"


@pytest.mark.agents
def test_a_dry_run_lists_its_tasks(project: MngrProgram) -> None:
    lines = project("tmr", "run", "--dry-run", "--max-tasks", "3").out.splitlines()
    start = lines.index("Tasks:")
    assert lines[start + 1 :] == [
        "  test_bad.py::test_bad (in the suite: fail, fail; alone: fail)",
        "  test_bad.py::test_worse (in the suite: fail, fail; alone: fail)",
        "  test_new.py::test_new (in the suite: pass, pass)",
    ]


def test_a_long_list_of_tasks_is_cut() -> None:
    single = [PlannedTask(slug=f"t{number}", tests=[f"test_{number}"]) for number in range(24)]
    shared = PlannedTask(slug="c1", tests=["test_a", "test_b", "test_c"], root_cause="c1")
    lines = make_estimate([shared, *single]).task_list.splitlines()
    assert lines[1:3] == ["  test_a and 2 more (root cause c1)", "  test_0"]
    assert len(lines) == 22 and lines[-1] == "  … and 5 more; --format json lists all"


def test_the_plan_says_one_test_and_several_tests_correctly() -> None:
    text = make_estimate([PlannedTask(slug="t", tests=["a"])], passing=1, skipped_by_rank=1, failing=1, flaky=1).text
    assert "1 of 3 tests fails and 1 is flaky. 1 test gets no agent.\n" in text
    assert "The run has 1 task: 0 shared root causes, 0 other tests that do not pass, 1 passing test.\n" in text
    assert "Without a task: 1 passing test. " in text and "Estimate: 1 agent, " in text


def test_the_plan_says_when_every_test_gets_an_agent() -> None:
    text = make_estimate([PlannedTask(slug="t", tests=["a"])], failing=1).replace(skipped=[]).text
    assert text.startswith("Before any change, 1 of ") and "Every test gets an agent.\n" in text


def make_estimate(
    tasks: list[PlannedTask], *, passing: int = 0, skipped_by_rank: int = 0, failing: int = 0, flaky: int = 0
) -> Estimate:
    return Estimate(
        tests=3, failing=failing, flaky=flaky, passing=passing, tasks=tasks, skipped_by_rank=skipped_by_rank,
        skipped=[SkippedTest(test="x", why="it is skipped")], agents=(len(tasks), len(tasks)), prompt_tokens=0,
        shared_tokens=0, tokens=(0, 0), cost_usd=None, seconds=(1.0, 2.0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("skipped", "words"),
    [(0, "every test gets an agent"), (1, "1 test gets no agent"), (2, "2 tests get no agent")],
)
def test_the_baseline_says_how_many_tests_get_no_agent(skipped: int, words: str) -> None:
    fact = BaselineDone(tests=1, counts={"fail": 1}, skipped=skipped, root_causes=0)
    assert fact.describe() == f"baseline: 1 fail; {words}; shared root causes: 0"
