"""Testing branches and excluding changes: no failure of one test hides another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import run_git
from mngr.tmr.changes.collect_changes import Change, ChangeAuthor, ChangeSize
from mngr.tmr.changes.integration_record import Exclusion, FailureProof
from mngr.tmr.integrate.earlier_verdicts import list_retriable_changes
from mngr.tmr.integrate.exclude_breaking import BaseResults, BranchTrial
from mngr.tmr.integrate.extra_checks import make_lint_check
from mngr.tmr.integrate.suite import Suite
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run_plan import RunPlan
from tests.tmr.world import PYTEST, World, new_world

pytestmark = pytest.mark.agents


@contextmanager
def open_suite(world: World, *words: str) -> Iterator[Suite]:
    plan = RunPlan(base=world.base, pytest=[*PYTEST, *words])
    suite = Suite(
        world.fleet.context.local_host,
        str(world.repo),
        plan,
        world.rooms,
        ResultCache(str(world.root), "suite"),
        {},
    )
    try:
        yield suite
    finally:
        suite.close()


def make_change(world: World, name: str, files: dict[str, str], **overrides: Any) -> Change:
    """Return a fix that was made on the base."""
    run_git(world.repo, "reset", "-q", "--hard", world.base)
    for path, text in files.items():
        (world.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (world.repo / path).write_text(text)
    run_git(world.repo, "add", "-A")
    run_git(world.repo, "commit", "-qm", name)
    commit = run_git(world.repo, "rev-parse", "HEAD")
    author = ChangeAuthor(
        task=name, title=name, agent=name, commits=[commit], claimed_commit=commit, verdict="confirmed", runs="1/1"
    )
    defaults: dict[str, Any] = {
        "id": name, "key": name, "kind": "fix", "flagged": False, "title": name, "body": "", "made_by": [author], "commit": commit,
        "parent": world.base, "needs": [], "paths": sorted(files), "size": ChangeSize(files=1, added=1, removed=1), "findings": [],
        "fixed_tests": [], "author": "A <a@example.invalid>", "authored": "1 +0000", "committed": "1 +0000",
    }  # fmt: skip
    return Change(**{**defaults, **overrides})


def make_proof(test: str) -> FailureProof:
    return FailureProof(test=test, before="pass", after="fail", why="", commit="")


def make_trial(world: World, suite: Suite, before: BaseResults | None = None) -> BranchTrial:
    local, messages = world.fleet.context.local_host, list[str]()
    return BranchTrial(local, str(world.repo), world.base, suite, before or BaseResults(verdicts={}), messages.append)


BASE = {
    "tests/test_a.py": "import os\n\n\ndef test_ends():\n    os._exit(3)\n",
    "tests/test_b.py": "def test_red():\n    assert 0, 'red'\n\n\ndef test_green():\n    pass\n",
    "tests/test_c.py": "def test_red():\n    assert 0, 'red'\n\n\ndef test_green():\n    pass\n",
}


def test_tests_after_a_test_that_crashes_pytest_are_run(tmp_path: Path) -> None:
    with new_world(tmp_path, BASE) as world, open_suite(world, "-x") as suite:
        expected = {
            "tests/test_a.py::test_ends": "crash", "tests/test_b.py::test_red": "fail", "tests/test_b.py::test_green": "pass",
            "tests/test_c.py::test_red": "fail", "tests/test_c.py::test_green": "pass",
        }  # fmt: skip
        assert suite.run_all(world.base).outcomes == expected
        assert suite.run_tests(world.base, expected).outcomes == expected | {"tests/test_a.py::test_ends": "fail"}


def test_a_missing_test_does_not_hide_other_results(tmp_path: Path) -> None:
    with new_world(tmp_path, {"tests/test_b.py": BASE["tests/test_b.py"]}) as world, open_suite(world) as suite:
        names = ["tests/test_b.py::test_red", "tests/test_b.py::test_new", "tests/test_x.py::test_x"]
        outcomes = suite.run_tests(world.base, [*names, "tests/test_b.py::test_green"]).outcomes
        assert [outcomes[name] for name in names] == ["fail", "missing", "missing"]
        assert outcomes["tests/test_b.py::test_green"] == "pass"


def test_a_changed_check_command_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    with new_world(tmp_path, {"tests/test_b.py": BASE["tests/test_b.py"]}) as world, open_suite(world) as suite:
        for command, is_failing in (("exit 1", True), ("exit 0", False)):
            suite.add_check("lint", make_lint_check(command), [command])
            assert bool(suite.run_tests(world.base, ["check:lint"]).failures) is is_failing


def test_a_flaky_test_does_not_hide_a_failure_with_the_same_message(tmp_path: Path) -> None:
    count = tmp_path / "count"
    flaky = (
        "import pathlib\n\n\ndef test_flaky():\n"
        f"    at = pathlib.Path({str(count)!r})\n"
        "    at.write_text(at.read_text() + 'x' if at.exists() else 'x')\n"
        "    assert len(at.read_text()) % 2 == 0, 'no'\n"
    )
    files = {
        "shop.py": "V = 1\n",
        "tests/test_a.py": flaky,
        "tests/test_b.py": "import shop\n\n\ndef test_value():\n    assert shop.V == 1, 'no'\n",
    }
    with new_world(tmp_path, files) as world, open_suite(world) as suite:
        breaking = make_change(world, "bad", {"shop.py": "V = 2\n"})
        result = make_trial(world, suite).choose_changes([breaking])
        assert [exclusion.change for exclusion in result.exclusions] == ["bad"], result
        assert result.still_failing == []


PAIR = {
    "a.py": "A = 1\n", "b.py": "B = 1\n", "c.py": "C = 1\n",
    "tests/test_pair.py": "import a\nimport b\n\n\ndef test_pair():\n    assert a.A <= b.B\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a project with two values that belong together, a separate one, and a test that already failed."""
    with new_world(tmp_path_factory.mktemp("pair"), {**PAIR, "tests/test_b.py": BASE["tests/test_b.py"]}) as world:
        yield world


def test_a_dependent_change_moves_behind_the_fix_that_it_needs(pair: World) -> None:
    with open_suite(pair) as suite:
        first = make_change(pair, "first", {"a.py": "A = 2\n"})
        second = make_change(pair, "second", {"c.py": "C = 2\n"}, needs=["first"])
        third = make_change(pair, "third", {"b.py": "B = 2\n"})
        imported_files: dict[str, list[str] | None] = {"tests/test_pair.py::test_pair": ["a.py", "b.py"]}
        base_results = BaseResults(verdicts={"tests/test_pair.py::test_pair": "pass"}, imported_files=imported_files)
        result = make_trial(pair, suite, base_results).choose_changes([first, second, third])
        assert [row.changes for row in result.composed.commits] == [["third"], ["first"], ["second"]]


def test_a_change_that_hides_a_test_is_excluded(pair: World) -> None:
    with open_suite(pair) as suite:
        hiding = make_change(pair, "hides", {"conftest.py": "collect_ignore = ['tests/test_pair.py']\n"})
        good = make_change(pair, "good", {"c.py": "C = 2\n"})
        base_results = BaseResults(verdicts={"tests/test_pair.py::test_pair": "pass"})
        result = make_trial(pair, suite, base_results).choose_changes([hiding, good])
        assert [exclusion.change for exclusion in result.exclusions] == ["hides"]
        assert [chosen.id for chosen in result.chosen] == ["good"]


def test_an_excluded_change_is_retried_unless_it_still_breaks_its_test(pair: World) -> None:
    with open_suite(pair) as suite:
        changes = [make_change(pair, "fine", {"c.py": "C = 2\n"}), make_change(pair, "breaks", {"a.py": "A = 2\n"})]
        tests = {"fine": "tests/test_b.py::test_red", "breaks": "tests/test_pair.py::test_pair"}
        exclusions = [
            Exclusion(change=name, why="breaks", reason="", others=["gone"], proof=make_proof(test))
            for name, test in tests.items()
        ]
        trial = make_trial(pair, suite)
        retriable = list_retriable_changes(
            trial, trial.choose_changes([]), exclusions, set(), {item.id: item for item in changes}
        )
        assert [item.id for item in retriable] == ["fine"]


def test_of_two_changes_for_one_test_the_breaking_one_is_excluded(pair: World) -> None:
    with open_suite(pair) as suite:
        fixed_tests = ["tests/test_pair.py::test_pair"]
        changes = [
            make_change(pair, "bad", {"a.py": "A = 5\n"}, fixed_tests=fixed_tests),
            make_change(pair, "good", {"b.py": "B = 2\n"}, fixed_tests=fixed_tests),
        ]
        result = make_trial(pair, suite, BaseResults(verdicts={fixed_tests[0]: "pass"})).choose_changes(changes)
        assert [item.change for item in result.exclusions] == ["bad"]
        assert [item.id for item in result.chosen] == ["good"]


def test_an_exclusion_names_the_change_that_it_conflicts_with(pair: World) -> None:
    with open_suite(pair) as suite:
        test = "tests/test_pair.py::test_pair"
        changes = [
            make_change(pair, "kept", {"c.py": "C = 3\n"}, fixed_tests=[test]),
            make_change(pair, "gone", {"b.py": "B = 0\n"}),
        ]
        (exclusion,) = make_trial(pair, suite, BaseResults(verdicts={test: "pass"})).choose_changes(changes).exclusions
        assert (exclusion.change, exclusion.others) == ("gone", ["kept"])
        assert exclusion.reason.startswith(f"it breaks {test} together with kept: "), exclusion.reason
