"""The rows that a run on tests adds to the journal: the baseline, the root causes and what became of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from mngr.base.json_structs import decode, encode_briefly
from mngr.base.model import Struct
from mngr.base.size_format import choose_noun, format_count
from mngr.mapreduce.journal.run_state import RecipeRow, RunState
from mngr.tmr.prepare.root_causes import RootCause
from mngr.tmr.prepare.verdict_of_one_test import describe_verdict
from mngr.tmr.runners.test_run import TestFunction, TestRun


class RunFact(Struct):
    """A fact that the journal keeps for the recipe."""

    type_name = ""

    def describe(self) -> str:
        """Return the fact as one line for people, or an empty text if it is not worth a line."""
        return ""

    def to_row(self) -> RecipeRow:
        """Return the row for the journal."""
        return RecipeRow(type=self.type_name, fields=encode_briefly(self))


class TestsCollected(RunFact):
    """All tests of the run."""

    __test__ = False
    type_name = "tests_collected"
    tests: list[TestFunction]
    environment: str = ""  # a hash of what the results depend on beside the tree


class TestSkipped(RunFact):
    """A test that needs no agent."""

    __test__ = False
    type_name = "test_skipped"
    test: str
    why: str
    has_low_rank: bool = False  # it passes, and the run plans no more tasks


class TestsChosen(RunFact):
    """All tests that need no baseline are skipped now."""

    __test__ = False
    type_name = "tests_chosen"


class BaselineRun(RunFact):
    """One run of a test in the baseline."""

    type_name = "baseline_run"
    run: TestRun
    reused_from: str = ""  # the time of an earlier baseline of the same tree, if this run is from there


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

    type_name = "baseline"
    tests: int
    counts: dict[str, int]  # tests by verdict
    skipped: int  # tests that get no agent, whatever their verdict
    root_causes: int
    reused: int = 0  # tests whose runs are from an earlier baseline of the same tree
    reused_from: str = ""  # the time of that baseline

    def describe_reuse(self) -> str:
        """Return which results come from an earlier baseline, or an empty text."""
        if not self.reused:
            return ""
        tests = f"{format_count(self.reused, 'test')} {choose_noun(self.reused, 'has', 'have')}"
        return f"{tests} the results of {self.reused_from[:19]}Z, because nothing has changed since"

    def describe(self) -> str:
        """Return the counts, and which results are not new."""
        words = [f"{number} {describe_verdict(verdict)}" for verdict, number in self.counts.items()]
        counts = ", ".join(words) or "mngr ran no test"
        reuse = self.describe_reuse()
        hint = f"; {reuse} (--fresh runs them again)" if reuse else ""
        no_agent = f"{format_count(self.skipped, 'test')} {choose_noun(self.skipped, 'gets', 'get')} no agent"
        agents = no_agent if self.skipped else "every test gets an agent"
        return f"baseline: {counts}; {agents}; shared root causes: {self.root_causes}{hint}"


class BaseMoved(RunFact):
    """A confirmed fix of a root cause, which later tasks start with."""

    type_name = "base_moved"
    by: str  # the slug of the task that fixed it
    commit: str  # the new base
    added: bool  # False when the fix could not be added

    def describe(self) -> str:
        """Return the task whose fix counts."""
        return f"later tasks start from the fix by {self.by}" if self.added else ""


class RootCauseGivenUp(RunFact):
    """A root cause that no agent repaired."""

    type_name = "root_cause_unrepaired"
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


def list_baseline_runs(state: RunState, *, with_reused: bool = True) -> Mapping[str, Sequence[TestRun]]:
    """Return the baseline runs in the journal so far, by test. Without `with_reused`, only those of this run."""
    runs_by_test: dict[str, list[TestRun]] = {}
    for fact in list_facts(state, BaselineRun):
        if with_reused or not fact.reused_from:
            runs_by_test.setdefault(fact.run.test, []).append(fact.run)
    return runs_by_test


def describe_row(row: RecipeRow) -> str:
    """Return a row as one line for people, or an empty text if it is not worth a line."""
    for fact_class in _DESCRIBED_FACTS:
        if row.type == fact_class.type_name:
            return decode(fact_class, row.fields).describe()
    return ""
