"""The rows that a run on tests adds to the journal: the baseline, the root causes and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.mapreduce.journal.run_state import RecipeRow, RunState
from mngr.tmr.prepare.baseline_verdict import describe_verdict
from mngr.tmr.prepare.root_causes import RootCause
from mngr.tmr.runners.test_run import TestFunction, TestRun


class RunFact(Struct):
    """A fact that the journal keeps for the recipe."""

    type_name = ""

    def describe(self) -> str:
        """Return the fact as one line for people, or an empty text if it is not worth a line."""
        return ""

    def to_row(self) -> RecipeRow:
        """Return the row for the journal."""
        return RecipeRow(type=self.type_name, fields=encode(self))


class TestsCollected(RunFact):
    """All tests of the run."""

    __test__ = False
    type_name = "collected"
    tests: list[TestFunction]


class TestSkipped(RunFact):
    """A test that needs no agent."""

    __test__ = False
    type_name = "skip"
    test: str
    why: str


class TestsChosen(RunFact):
    """All tests that need no baseline are skipped now."""

    __test__ = False
    type_name = "chosen"


class BaselineRun(RunFact):
    """One run of a test in the baseline."""

    type_name = "ran"
    run: TestRun


class RootCauseFound(RunFact):
    """A root cause that several tests share."""

    type_name = "root_cause"
    root_cause: RootCause

    def describe(self) -> str:
        """Return the number of affected tests and the title."""
        root_cause = self.root_cause
        return f"{root_cause.id}: {len(root_cause.tests)} tests fail in the same way: {root_cause.title}"


class BaselineDone(RunFact):
    """How the tests ended before any change."""

    type_name = "standing"
    tests: int
    counts: dict[str, int]  # tests by verdict
    skipped: int
    root_causes: int

    def describe(self) -> str:
        """Return the counts."""
        words = [f"{number} {describe_verdict(verdict)}" for verdict, number in self.counts.items()]
        counts = ", ".join(words) or "mngr ran no test"
        return f"baseline: {counts}, {self.skipped} skipped; shared root causes: {self.root_causes}"


class BaseMoved(RunFact):
    """A confirmed fix of a root cause, which later tasks start with."""

    type_name = "base"
    by: str  # the slug of the task that fixed it
    commit: str  # the new base
    added: bool  # False when the fix could not be added

    def describe(self) -> str:
        """Return the task whose fix counts."""
        return f"later tasks start from the fix by {self.by}" if self.added else ""


class RootCauseGivenUp(RunFact):
    """A root cause that no agent repaired."""

    type_name = "held"
    root_cause: str
    tests: list[str]
    why: str | None

    def describe(self) -> str:
        """Return the reason."""
        return f"{self.root_cause}: no agent fixed this root cause, so {len(self.tests)} tests still fail: {self.why}"


Fact = TypeVar("Fact", bound=RunFact)
_DESCRIBED_FACTS: tuple[type[RunFact], ...] = (RootCauseFound, BaselineDone, BaseMoved, RootCauseGivenUp)


def list_facts(state: RunState, fact_class: type[Fact]) -> list[Fact]:
    """Return the facts of one class, in the order of the journal."""
    return [decode(fact_class, row.fields) for row in state.recipe_rows.get(fact_class.type_name, ())]


def list_baseline_runs(state: RunState) -> Mapping[str, Sequence[TestRun]]:
    """Return the baseline runs in the journal so far, by test."""
    runs_by_test: dict[str, list[TestRun]] = {}
    for fact in list_facts(state, BaselineRun):
        runs_by_test.setdefault(fact.run.test, []).append(fact.run)
    return runs_by_test


def describe_row(row: RecipeRow) -> str:
    """Return a row as one line for people, or an empty text if it is not worth a line."""
    for fact_class in _DESCRIBED_FACTS:
        if row.type == fact_class.type_name:
            return decode(fact_class, row.fields).describe()
    return ""
