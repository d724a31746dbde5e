"""Counting the tests of a branch: which tests it repaired, and which only happened to pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import BranchCommit, Integration
from mngr.tmr.integrate.extra_checks import count_tests
from tests.tmr.integrate.test_exclude_breaking import make_change, open_suite
from tests.tmr.world import World, new_world

pytestmark = pytest.mark.agents

BASELINE = {"test_all.py::test_sum": "fail", "test_all.py::test_odd": "fail", "test_all.py::test_later": "skip"}
TESTS = """
    import pathlib
    import pytest
    import calc

    def test_sum():
        assert calc.add(1, 1) == 2

    def test_odd():
        counter = pathlib.Path({counter!r})
        counter.write_text(counter.read_text() + "x")
        assert len(counter.read_text()) % 2 == 1

    @pytest.mark.{mark}
    def test_later():
        pass
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Return a project with a wrong sum, a flaky test and a skipped test."""
    counter = tmp_path / "counter"
    counter.write_text("")
    files = {
        "calc.py": "def add(a, b):\n    return a - b\n",
        "test_all.py": TESTS.format(counter=str(counter), mark="skip"),
    }
    with new_world(tmp_path, files) as world:
        yield world


def count(world: World, change: Change) -> Integration:
    """Return the record of a branch with one change, with its tests counted."""
    commit = BranchCommit(commit=change.commit, tree="", changes=[change.id], kind="fix", subject="")
    integration = Integration(onto=world.base, head=change.commit, verdict="green", commits=[commit])
    with open_suite(world) as suite:
        return count_tests(suite, integration, BASELINE, [change])


def test_a_test_that_passes_only_sometimes_is_flaky_and_not_fixed(world: World) -> None:
    change = make_change(world, "aaaaa1", {"calc.py": "def add(a, b):\n    return a + b\n"})
    totals = count(world, change).totals
    assert (totals.fixed, totals.flaky) == (["test_all.py::test_sum"], ["test_all.py::test_odd"])


def test_skipped_tests_are_counted_apart(world: World) -> None:
    counts = count(world, make_change(world, "aaaaa1", {"note.txt": "x"})).tests
    assert counts is not None and (counts.all, counts.passed, counts.skipped) == (3, 1, 1)
