"""Counts the tests of the integrated branch, and decides which of them the branch repaired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import Integration, SuiteCounts
from mngr.tmr.integrate.bisect import list_claimed_tests
from mngr.tmr.integrate.suite import WHOLE_SUITE, Suite

_STABILITY_RUNS = 5  # runs that show whether a test is repaired, if no change claims that


def count_tests(
    suite: Suite, integration: Integration, baseline: Mapping[str, str], changes: Sequence[Change]
) -> Integration:
    """Return the record with the numbers of tests, and with the tests that the branch repaired.

    `baseline` holds the verdict on each test before any change. The record stays as it is when the results of
    single tests are unknown.
    """
    if not integration.commits:
        return integration
    outcomes = suite.run_all(integration.head).outcomes
    if WHOLE_SUITE in outcomes:
        return integration
    passed = {test for test, outcome in outcomes.items() if outcome == "pass"}
    skipped = [test for test, outcome in outcomes.items() if outcome == "skip"]
    repaired = {test for test in passed if baseline.get(test) == "fail"}
    flaky = _find_flaky(suite, integration, repaired - _list_claimed(integration, changes))
    counts = SuiteCounts(all=len(outcomes), passed=len(passed), skipped=len(skipped), green=sorted(repaired - flaky))
    return integration.replace(tests=counts, flaky=sorted({*integration.flaky, *flaky}))


def _list_claimed(integration: Integration, changes: Sequence[Change]) -> set[str]:
    """Return the tests that the changes in the branch claim to repair."""
    names = {name for commit in integration.commits for name in commit.changes}
    return {test for change in changes if change.id in names for test in list_claimed_tests(change)}


def _find_flaky(suite: Suite, integration: Integration, tests: set[str]) -> set[str]:
    """Return the tests that do not always fail below the branch and always pass on it."""
    always_pass = suite.list_stable(integration.head, tests, red=False, times=_STABILITY_RUNS)
    return tests - suite.list_stable(integration.onto, always_pass, red=True, times=_STABILITY_RUNS)
