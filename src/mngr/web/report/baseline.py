"""The facts about the runs of tests before any change: where mngr ran each test, and how the runs ended."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.prepare.verdict_of_one_test import combine_runs, describe_runs, explain_verdict
from mngr.tmr.runners.test_run import TestRun
from mngr.web.report.report_data import ReportFacts


class BaselineTest(Struct):
    """A test with its runs before any change."""

    test: str
    verdict: str
    explanation: str  # Why the runs differ, or nothing.
    summary: str  # All runs in one line.
    runs: Sequence[TestRun]


def build_baseline_test(test: str, runs: Sequence[TestRun]) -> BaselineTest:
    """Return a test with its runs, and an explanation if the runs differ."""
    verdict = combine_runs(runs)
    explanation = explain_verdict(verdict)
    return BaselineTest(
        test=test,
        verdict=verdict,
        explanation=explanation,
        summary=". ".join(filter(None, [describe_runs(runs), explanation])),
        runs=runs,
    )


def list_baseline_tests(facts: ReportFacts) -> list[BaselineTest]:
    """Return all tests. Tests that do not always pass come first."""
    tests = [build_baseline_test(test, runs) for test, runs in facts.baseline_runs.items()]
    return sorted(tests, key=lambda test: test.verdict == "pass")
