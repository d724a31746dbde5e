"""Compares the reports of a run with those that must come: one for each parameter, and the exit code of a success."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mngr.tmr.runners.test_run import TestFunction, TestRun

CollectTests = Callable[[list[str]], Sequence[TestFunction]]  # collects the tests of files at the claimed commit


def update_ids(tests: Sequence[TestFunction], runs: Sequence[TestRun], collect: CollectTests) -> list[TestFunction]:
    """Return the tests with the node ids that must report.

    The ids come from the commit on which the tests were collected. A claim can change the parameters of a test. Only if
    a run reported other ids, mngr collects the files again, at the claimed commit.
    """
    reported = {run.test: set(run.ids) for run in runs if run.outcome == "pass"}
    changed = [test for test in tests if test.ids and reported.get(test.id, set(test.ids)) != set(test.ids)]
    if not changed:
        return list(tests)
    collected = {test.id: test for test in collect(sorted({test.path for test in changed}))}
    return [
        test.replace(ids=collected[test.id].ids) if test in changed and test.id in collected else test for test in tests
    ]


def find_missing_ids(run: TestRun, test: TestFunction) -> list[str]:
    """Return the node ids of the test that the run did not report."""
    return [node_id for node_id in test.ids if node_id not in run.ids]


def find_wrong_report(runs: Sequence[TestRun], tests: Mapping[str, TestFunction]) -> str:
    """Return why the reports of a run that passed are not those that must come, or an empty string."""
    for run in runs:
        test = tests.get(run.test)
        if run.outcome != "pass" or test is None:
            continue
        if test.ids and (missing := find_missing_ids(run, test)):
            return f"{missing[0]} left no result"
        if test.ids and (additional := [node_id for node_id in run.ids if node_id not in test.ids]):
            return f"pytest reported a test that mngr did not start: {additional[0]}"
        if run.exit_code:
            return f"pytest ended with exit code {run.exit_code}, although every test passed"
    return ""
