"""What an experiment gets, asks for and answers.

To add an experiment, write a module with one generator function and add it to `_EXPERIMENTS` in `run_experiments.py`:

    def try_something(inputs: ExperimentInputs) -> ExperimentPlan:
        [run] = yield [Trial(tests=[inputs.test.id], env={"X": "1"}, timeout=inputs.trial_timeout)]
        if run is None or run.problem:
            return not_examined("something", NO_TIME)
        ...
        return ExperimentResult(row=Experiment(name="something", outcome="passed"), findings=[])

It yields a list of trials and gets as many answers, in the same order. An answer is None if there was no time for the
trial. It may yield again. All experiments advance together: one command in the clean room runs the trials that they
asked for in the same round, so ask for as much as possible at once. Judge only from differences between trials, and ask
for a trial without a change if you need one to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import Trial, TrialRun
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.rules.changed_file import ChangedFile

OUTCOMES = ("passed", "failed", "unclear", "not_examined")
NO_TIME = "the other experiments used up the time; --verify full gives them more"


class Experiment(Struct):
    """One way in which mngr examined a claim, and its result."""

    name: str
    outcome: str  # one of OUTCOMES
    reason: str = ""
    trials: int = 0  # how often mngr ran the test for it
    seconds: float = 0.0  # that these runs took
    prevents_confirmation: bool = False  # the claim is unverified at best, for this reason


class ExperimentResult(Struct):
    """The row of an experiment for the receipt, and its findings. A finding points to a changed line."""

    row: Experiment
    findings: list[Finding] = []


class ExperimentInputs(Struct):
    """One claim about one test that has passed, as experiments see it."""

    test: TestFunction
    level: str  # quick | full
    seed: int
    changes: list[ChangedFile]  # all files that the claim changes
    is_test_changed: bool  # the test itself, or code that it shares with other tests
    first_run: TestRun  # it passed; it has the executed lines if the test is changed
    plain_seconds: float  # of the usual number of runs of the test without a change
    trial_timeout: float  # seconds for one trial
    read_files: Callable[[Iterable[str]], dict[str, str]]  # returns the texts of files of the commit
    is_word_of_base: Callable[[str], bool]  # whether Python code of the base, without its tests, contains a word

    @property
    def expected_ids(self) -> list[str]:
        """The node ids that must report in every trial of the test."""
        return self.test.ids or [self.test.id]

    def find_change(self, path: str) -> ChangedFile | None:
        """Return the change of a file, or None if the claim does not change it."""
        return next((change for change in self.changes if change.path == path), None)


ExperimentPlan = Generator[list[Trial], Sequence[TrialRun | None], ExperimentResult]


def not_examined(name: str, reason: str) -> ExperimentResult:
    """Return the result of an experiment that was not made."""
    return ExperimentResult(row=Experiment(name=name, outcome="not_examined", reason=reason))
