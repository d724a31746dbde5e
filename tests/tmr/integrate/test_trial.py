"""What is run of branches, and who is put aside: no test may go unseen because of another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.program import run_git
from mngr.tmr.changes.changes import Change, ChangeAuthor
from mngr.tmr.integrate.earlier_verdicts import list_retriable_changes
from mngr.tmr.integrate.suite import Suite
from mngr.tmr.integrate.tree_checks import make_lint_check
from mngr.tmr.integrate.trial import BaseResults, BranchTrial, Exclusion
from mngr.tmr.plan import RunPlan
from mngr.tmr.result_cache import ResultCache
from tests.tmr.world import PYTEST, World, new_world

pytestmark = pytest.mark.agents


@contextmanager
def suite_of(world: World, *words: str) -> Iterator[Suite]:
    plan = RunPlan(base=world.base, pytest=[*PYTEST, *words])
    suite = Suite(
        world.fleet.context.local_host,
        str(world.repo),
        plan,
        world.rooms,
        ResultCache(str(world.repo), "suite"),
        {},
    )
    try:
        yield suite
    finally:
        suite.close()


def change(world: World, name: str, files: dict[str, str], **more: Any) -> Change:
    """A fix that somebody made on the base."""
    run_git(world.repo, "reset", "-q", "--hard", world.base)
    for path, text in files.items():
        (world.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (world.repo / path).write_text(text)
    run_git(world.repo, "add", "-A")
    run_git(world.repo, "commit", "-qm", name)
    commit = run_git(world.repo, "rev-parse", "HEAD")
    maker = ChangeAuthor(
        task=name, title=name, agent=name, commits=[commit], claimed=commit, verdict="confirmed", runs="1/1"
    )
    facts: dict[str, Any] = {
        "id": name, "key": name, "kind": "fix", "flagged": False, "title": name, "body": "", "made_by": [maker], "commit": commit,
        "parent": world.base, "needs": [], "paths": sorted(files), "size": {"files": 1, "added": 1, "removed": 1}, "findings": [],
        "turned": [], "author": "A <a@example.invalid>", "authored": "1 +0000", "committed": "1 +0000",
    }  # fmt: skip
    return Change(**{**facts, **more})


def trial_of(world: World, suite: Suite, before: BaseResults | None = None) -> BranchTrial:
    local, said = world.fleet.context.local_host, list[str]()
    return BranchTrial(local, str(world.repo), world.base, suite, before or BaseResults(verdicts={}), said.append)


BASE = {
    "tests/test_a.py": "import os\n\n\ndef test_ends():\n    os._exit(3)\n",
    "tests/test_b.py": "def test_red():\n    assert 0, 'red'\n\n\ndef test_green():\n    pass\n",
    "tests/test_c.py": "def test_red():\n    assert 0, 'red'\n\n\ndef test_green():\n    pass\n",
}


def test_what_comes_after_a_test_that_ends_pytest_is_run_too(tmp_path: Path) -> None:
    with new_world(tmp_path, BASE) as world, suite_of(world, "-x") as suite:
        expected = {
            "tests/test_a.py::test_ends": "crash", "tests/test_b.py::test_red": "fail", "tests/test_b.py::test_green": "pass",
            "tests/test_c.py::test_red": "fail", "tests/test_c.py::test_green": "pass",
        }  # fmt: skip
        assert suite.run_all(world.base).outcomes == expected
        assert suite.run_tests(world.base, expected).outcomes == expected | {"tests/test_a.py::test_ends": "fail"}


def test_a_test_that_is_not_there_hides_no_other(tmp_path: Path) -> None:
    with new_world(tmp_path, {"tests/test_b.py": BASE["tests/test_b.py"]}) as world, suite_of(world) as suite:
        names = ["tests/test_b.py::test_red", "tests/test_b.py::test_new", "tests/test_x.py::test_x"]
        found = suite.run_tests(world.base, [*names, "tests/test_b.py::test_green"]).outcomes
        assert [found[name] for name in names] == ["fail", "missing", "missing"]
        assert found["tests/test_b.py::test_green"] == "pass"


def test_another_command_for_a_check_is_another_check(tmp_path: Path) -> None:
    with new_world(tmp_path, {"tests/test_b.py": BASE["tests/test_b.py"]}) as world, suite_of(world) as suite:
        for command, red in (("exit 1", True), ("exit 0", False)):
            suite.add_check("lint", make_lint_check(command), [command])
            assert bool(suite.run_tests(world.base, ["check:lint"]).failures) is red


def test_what_comes_and_goes_hides_nothing_that_fails_with_the_same_words(tmp_path: Path) -> None:
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
    with new_world(tmp_path, files) as world, suite_of(world) as suite:
        bad = change(world, "bad", {"shop.py": "V = 2\n"})
        settled = trial_of(world, suite).choose_changes([bad])
        assert [one.change for one in settled.exclusions] == ["bad"], settled
        assert settled.red_before == []


PAIR = {
    "a.py": "A = 1\n", "b.py": "B = 1\n", "c.py": "C = 1\n",
    "tests/test_pair.py": "import a\nimport b\n\n\ndef test_pair():\n    assert a.A <= b.B\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Two values that go together, one that is alone, and a test that was red before."""
    with new_world(tmp_path_factory.mktemp("pair"), {**PAIR, "tests/test_b.py": BASE["tests/test_b.py"]}) as world:
        yield world


def test_what_needs_a_fix_that_must_come_later_comes_after_it(pair: World) -> None:
    with suite_of(pair) as suite:
        first = change(pair, "first", {"a.py": "A = 2\n"})
        second = change(pair, "second", {"c.py": "C = 2\n"}, needs=["first"])
        third = change(pair, "third", {"b.py": "B = 2\n"})
        loaded: dict[str, list[str] | None] = {"tests/test_pair.py::test_pair": ["a.py", "b.py"]}
        before = BaseResults(verdicts={"tests/test_pair.py::test_pair": "pass"}, imported_files=loaded)
        settled = trial_of(pair, suite, before).choose_changes([first, second, third])
        assert [row.changes for row in settled.composed.commits] == [["third"], ["first"], ["second"]]


def test_who_makes_a_test_vanish_is_put_aside(pair: World) -> None:
    with suite_of(pair) as suite:
        hides = change(pair, "hides", {"conftest.py": "collect_ignore = ['tests/test_pair.py']\n"})
        good = change(pair, "good", {"c.py": "C = 2\n"})
        before = BaseResults(verdicts={"tests/test_pair.py::test_pair": "pass"})
        settled = trial_of(pair, suite, before).choose_changes([hides, good])
        assert [one.change for one in settled.exclusions] == ["hides"]
        assert [change.id for change in settled.chosen] == ["good"]


def test_what_broke_with_one_that_is_gone_may_go_unless_it_breaks_alone(pair: World) -> None:
    with suite_of(pair) as suite:
        some = [change(pair, "fine", {"c.py": "C = 2\n"}), change(pair, "breaks", {"a.py": "A = 2\n"})]
        tests = {"fine": "tests/test_b.py::test_red", "breaks": "tests/test_pair.py::test_pair"}
        asides = [
            Exclusion(change=name, why="breaks", reason="", others=["gone"], proof={"test": test, "commit": ""})
            for name, test in tests.items()
        ]
        trial = trial_of(pair, suite)
        found = list_retriable_changes(trial, trial.choose_changes([]), asides, set(), {one.id: one for one in some})
        assert [one.id for one in found] == ["fine"]


def test_of_two_for_one_test_the_one_with_which_it_is_red_goes(pair: World) -> None:
    with suite_of(pair) as suite:
        turned = ["tests/test_pair.py::test_pair"]
        some = [
            change(pair, "bad", {"a.py": "A = 5\n"}, turned=turned),
            change(pair, "good", {"b.py": "B = 2\n"}, turned=turned),
        ]
        settled = trial_of(pair, suite, BaseResults(verdicts={turned[0]: "pass"})).choose_changes(some)
        assert [one.change for one in settled.exclusions] == ["bad"]
        assert [one.id for one in settled.chosen] == ["good"]


def test_who_is_put_aside_is_told_beside_whom_it_breaks(pair: World) -> None:
    with suite_of(pair) as suite:
        test = "tests/test_pair.py::test_pair"
        some = [
            change(pair, "kept", {"c.py": "C = 3\n"}, turned=[test]),
            change(pair, "gone", {"b.py": "B = 0\n"}),
        ]
        (one,) = trial_of(pair, suite, BaseResults(verdicts={test: "pass"})).choose_changes(some).exclusions
        assert (one.change, one.others) == ("gone", ["kept"])
        assert one.reason.startswith(f"beside kept it turns {test} red: "), one.reason
