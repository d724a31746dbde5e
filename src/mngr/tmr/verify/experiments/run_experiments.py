"""Runs the experiments of a claim together, cheapest first, until the verdict is certain or the time is used up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import Trial, TrialRun
from mngr.tmr.verify.experiments.can_fail import check_can_fail
from mngr.tmr.verify.experiments.experiment import (
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.harness_tampering import check_harness
from mngr.tmr.verify.experiments.new_conditions import try_new_conditions
from mngr.tmr.verify.experiments.old_test_against_new import compare_old_and_new
from mngr.tmr.verify.experiments.real_equality import compare_by_built_in_types
from mngr.tmr.verify.experiments.similar_inputs import try_similar_inputs
from mngr.tmr.verify.experiments.unseen_inputs import try_unseen_inputs
from mngr.tmr.verify.experiments.unwatched_calls import replay_unwatched

RunTrials = Callable[[Sequence[Trial], float], list[TrialRun | None]]  # trials and a budget of seconds

# In the order of their cost. The name is that of the row in the receipt.
_EXPERIMENTS: tuple[tuple[str, Callable[[ExperimentInputs], ExperimentPlan]], ...] = (
    ("harness", check_harness),
    ("unseen_inputs", try_unseen_inputs),
    ("unwatched_calls", replay_unwatched),
    ("similar_inputs", try_similar_inputs),
    ("new_conditions", try_new_conditions),
    ("real_equality", compare_by_built_in_types),
    ("can_fail", check_can_fail),
    ("old_and_new", compare_old_and_new),
)
# The trials of a claim may take so many times as long as the repeated runs of its test, and so many seconds more.
_BUDGETS = {"quick": (1.0, 0.6), "full": (14.0, 5.0)}
# The reasons in rows of experiments that passed and gave no reason themselves.
_PASSED_REASONS = {
    "unseen_inputs": "the test also passes with other words and numbers in its input and in the expected values",
    "unwatched_calls": "the calls of the test give the same results in a process without pytest",
    "similar_inputs": "for similar inputs, the new code also differs from the code of the base",
    "new_conditions": "the test fails if one of the new conditions is always true",
    "real_equality": "the checks also hold when mngr compares the values of built-in types itself",
}


class ExperimentReport(Struct):
    """The rows and the findings of all experiments of a claim."""

    rows: list[Experiment]
    findings: list[Finding]


def run_experiments(inputs: ExperimentInputs, run_trials: RunTrials) -> ExperimentReport:
    """Run all experiments and return what they found. In each round, one command runs the trials of all of them."""
    times, spare = _BUDGETS[inputs.level]
    budget = times * inputs.plain_seconds + spare
    running = {name: start(inputs) for name, start in _EXPERIMENTS}
    answers: dict[str, Sequence[TrialRun | None]] = {}
    results: dict[str, ExperimentResult] = {}
    while running:
        wanted: dict[str, list[Trial]] = {}
        for name, plan in list(running.items()):
            try:
                wanted[name] = plan.send(answers[name]) if name in answers else next(plan)
            except StopIteration as stop:
                results[name] = stop.value
                del running[name]
        if _is_certain(results.values()):
            break
        trials = [trial for name in wanted for trial in wanted[name]]
        can_run = budget > 0 or any(trial.always for trial in trials)
        seen = run_trials(trials, max(0.0, budget)) if trials and can_run else [None] * len(trials)
        budget -= sum(trial_run.run.seconds for trial_run in seen if trial_run is not None)
        for name, asked in wanted.items():
            answers[name], seen = seen[: len(asked)], seen[len(asked) :]
    for name, plan in running.items():
        plan.close()
        results[name] = not_examined(name, "another experiment had already refuted the claim")
    ordered = [results[name] for name, _ in _EXPERIMENTS]
    return ExperimentReport(
        rows=[_explain(result.row) for result in ordered],
        findings=[finding for result in ordered for finding in result.findings],
    )


def _explain(row: Experiment) -> Experiment:
    """Return the row with a sentence about what mngr saw."""
    if row.reason:
        return row
    default = "mngr observed nothing that speaks against the claim" if row.outcome == "passed" else row.outcome
    return row.replace(reason=_PASSED_REASONS.get(row.name, default))


def list_unmade(reason: str) -> ExperimentReport:
    """Return a report that says why no experiment was made."""
    return ExperimentReport(rows=[not_examined(name, reason).row for name, _ in _EXPERIMENTS], findings=[])


def _is_certain(results: Iterable[ExperimentResult]) -> bool:
    return any(finding.level == "refuse" for result in results for finding in result.findings)
