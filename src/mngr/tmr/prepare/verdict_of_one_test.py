"""Decides what the baseline says about a test: from its runs in the suite, and from those alone."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.runners.test_run import TestRun

FAILS_IN_SUITE = "fails_in_suite"  # it passes alone
FAILS_ALONE = "fails_alone"  # it passes in the suite
VERDICTS = ("pass", "fail", "flaky", FAILS_IN_SUITE, FAILS_ALONE, "skip")
_WORDS = {
    FAILS_IN_SUITE: "failing in the suite and passing alone",
    FAILS_ALONE: "failing alone and passing in the suite",
}
_EXPLANATIONS = {
    FAILS_IN_SUITE: "The test passes in its own process and fails after other tests: another test changes something that it needs.",
    FAILS_ALONE: "The test fails in its own process and passes after other tests: it needs something that another test leaves.",
}


def combine_runs(runs: Sequence[TestRun]) -> str:
    """Return the verdict of all runs of a test, one of VERDICTS."""
    in_suite = {_simplify_outcome(run.outcome) for run in runs if run.seen == "suite"}
    alone = {_simplify_outcome(run.outcome) for run in runs if run.seen == "alone"}
    if len(in_suite | alone) == 1:
        return (in_suite | alone).pop()
    if in_suite == {"fail"} and alone == {"pass"}:
        return FAILS_IN_SUITE
    if "pass" in in_suite and alone == {"fail"}:
        return FAILS_ALONE
    return "flaky"


def has_to_run_alone(runs: Sequence[TestRun]) -> bool:
    """True when the runs in the suite leave a question that a run in its own process answers."""
    return {_simplify_outcome(run.outcome) for run in runs if run.seen == "suite"} not in ({"pass"}, {"skip"})


def has_answer(runs: Sequence[TestRun], required: int) -> bool:
    """True when the runs alone have answered that question."""
    alone = [run for run in runs if run.seen == "alone"]
    in_suite = [run for run in runs if run.seen == "suite"]
    if any(run.outcome in ("timeout", "crash") for run in alone):
        return True  # another run would cost as much and show the same
    both = {_simplify_outcome(run.outcome) for run in (*alone, *in_suite)}
    return len(alone) >= required or (bool(alone) and bool(in_suite) and both == {"fail"})


def describe_verdict(verdict: str) -> str:
    """Return a verdict as words for people."""
    return _WORDS.get(verdict, verdict)


def describe_runs(runs: Sequence[TestRun]) -> str:
    """Return how the runs ended and where mngr saw them: "in the suite: pass, fail; alone: pass"."""
    places = (("suite", "in the suite"), ("alone", "alone"))
    outcomes = {words: [run.outcome for run in runs if run.seen == seen] for seen, words in places}
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in outcomes.items() if names)


def explain_verdict(verdict: str) -> str:
    """Return a sentence about a verdict that is not obvious, or an empty text."""
    return _EXPLANATIONS.get(verdict, "")


def _simplify_outcome(outcome: str) -> str:
    return outcome if outcome in ("pass", "skip") else "fail"
