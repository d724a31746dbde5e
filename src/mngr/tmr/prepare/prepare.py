"""Prepares a run before any agent is created: collects tests, runs the baseline, groups failures, selects tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.mapreduce.run_state import replay_rows
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.test_run import PytestOptions, TestFunction, TestRun
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.baseline import BaselinePlan, combine_outcomes, run_baseline
from mngr.tmr.prepare.code_under_test import describe_foreign_code
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.prepare.history import Fingerprinter, RunHistory
from mngr.tmr.prepare.root_causes import group_failures

RowListener = Callable[[dict[str, Any]], None]


class BaselineResult(Struct):
    """A test with its result before any agent has changed anything."""

    test: TestFunction
    verdict: str  # pass | fail | flaky | skip
    seconds: float
    failing_run: TestRun | None = None


class PreparedTests(Struct):
    """Everything that is known before agents are created. The journal holds it too, so that it is computed once."""

    tests: dict[str, BaselineResult]
    root_causes: list[dict[str, Any]]  # each shared by several tests
    skipped: dict[str, str]  # test: why it gets no agent

    @property
    def selected_tests(self) -> list[BaselineResult]:
        """Return the tests that get an agent, now or after their root cause is repaired."""
        return [result for test, result in self.tests.items() if test not in self.skipped]


def prepare_run(
    local: Host, run: RunDir, plan: RunPlan, rooms: CleanRoomPool, journal: Journal, publish: RowListener
) -> PreparedTests:
    """Find out everything that the journal does not hold yet, and return it.

    Raises MngrError when the tests cannot be collected or would run foreign code.
    """

    def note(kind: str, **data: Any) -> None:
        publish(journal.write(kind, sync=False, **data))

    facts = replay_rows(journal.rows).recipe_rows
    if "collected" not in facts:
        note("collected", tests=[test.to_dict() for test in _collect_tests(plan, rooms)])
        facts = replay_rows(journal.rows).recipe_rows
    tests = [TestFunction(**row) for row in facts["collected"][0]["tests"]]
    history = RunHistory(run.root)
    fingerprinter = Fingerprinter(local, run.repo, plan.base, plan.tutorial)
    skipped = {row["test"]: row["why"] for row in facts.get("skip", [])}
    if "chosen" not in facts:
        changed = _find_changed_files(local, run, plan)
        for test in tests:
            reason = _find_skip_reason(plan, test, changed, history, fingerprinter)
            if reason is not None:
                skipped[test.id] = reason
                note("skip", test=test.id, why=reason)
        note("chosen")
    wanted = [test for test in tests if test.id not in skipped]
    durations = {test: entry.seconds for test, entry in history.tests.items() if entry.seconds}
    run_baseline(
        rooms,
        plan.base,
        PytestOptions(pytest=plan.pytest, args=plan.args, timeout=plan.test_timeout),
        BaselinePlan(tests=wanted, k=plan.k, durations=durations, known_runs=list_baseline_runs(facts)),
        on_run_end=lambda test, number, test_run: note("ran", run=test_run.to_dict()),
        get_artifact_dir=lambda test, number: _artifact_path(run, test, number),
    )
    return _load_prepared(replay_rows(journal.rows).recipe_rows, plan.only, note)


def _artifact_path(run: RunDir, test: TestFunction, number: int) -> str:
    return os.path.join(run.path, "baseline", make_slug(test.id), str(number + 1))


def _load_prepared(
    facts: Mapping[str, Sequence[dict[str, Any]]], only: str, note: Callable[..., None]
) -> PreparedTests:
    """Build the result from the journal's rows; `note` writes the root causes and counts if the journal lacks them."""
    tests = [TestFunction(**row) for row in facts["collected"][0]["tests"]]
    runs = list_baseline_runs(facts)
    skipped = {row["test"]: row["why"] for row in facts.get("skip", [])}
    results: dict[str, BaselineResult] = {}
    for test in tests:
        test_runs = runs.get(test.id, [])
        if not test_runs:
            continue
        failing_run = next((test_run for test_run in test_runs if test_run.outcome not in ("pass", "skip")), None)
        results[test.id] = BaselineResult(
            test=test,
            verdict=combine_outcomes([test_run.outcome for test_run in test_runs]),
            seconds=max(test_run.seconds for test_run in test_runs),
            failing_run=failing_run,
        )
        if test.id not in skipped and only == "failing" and results[test.id].verdict in ("pass", "skip"):
            skipped[test.id] = "it passes"
    root_causes = [row["cluster"] for row in facts.get("cluster", [])]
    if "standing" not in facts:
        failing = {
            name: result.failing_run
            for name, result in results.items()
            if result.verdict == "fail" and result.failing_run
        }
        for root_cause in group_failures(failing):
            if root_cause.shared and all(known_cause["id"] != root_cause.id for known_cause in root_causes):
                root_causes.append(root_cause.to_dict())
                note("cluster", cluster=root_cause.to_dict())
        counts = {
            verdict: sum(result.verdict == verdict for result in results.values())
            for verdict in ("pass", "fail", "flaky", "skip")
        }
        counts = {verdict: number for verdict, number in counts.items() if number}
        note("standing", tests=len(tests), counts=counts, skipped=len(skipped), causes=len(root_causes))
    return PreparedTests(tests=results, root_causes=root_causes, skipped=skipped)


def list_baseline_runs(facts: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, list[TestRun]]:
    """Return the baseline runs in the journal so far, by test."""
    runs_by_test: dict[str, list[TestRun]] = {}
    for row in facts.get("ran", []):
        runs_by_test.setdefault(row["run"]["test"], []).append(TestRun.from_dict(row["run"]))
    return runs_by_test


def _collect_tests(plan: RunPlan, rooms: CleanRoomPool) -> list[TestFunction]:
    """Return the tests; raise MngrError when they cannot be collected or would run foreign code."""
    with rooms.acquire(plan.base) as room:
        collected = collect_tests(room, plan.pytest, plan.paths, plan.args, program=plan.program)
        if collected.errors:
            shown = "\n  ".join(line for error in collected.errors[:3] for line in error.strip().splitlines()[-12:])
            raise MngrError(
                f"the tests cannot be collected:\n  {shown}",
                "no agent was made; mend that first, or name the tests to work on",
            )
        problems = describe_foreign_code(collected.resolved, plan.program, collected.checkout_modules)
        if problems:
            raise MngrError(f"the tests would not run the workspace's own code: {problems[0]}", "no agent was made")
    return collected.tests


def _find_changed_files(local: Host, run: RunDir, plan: RunPlan) -> set[str] | None:
    """Return the files that changed since `plan.changed_since`, or None when the plan does not set it."""
    if plan.changed_since is None:
        return None
    output = git.run_checked(local, run.root, "diff", "--name-only", "-z", plan.changed_since, plan.base, "--")
    return set(output.split("\0"))


def _find_skip_reason(
    plan: RunPlan, test: TestFunction, changed_files: set[str] | None, history: RunHistory, fingerprinter: Fingerprinter
) -> str | None:
    """Return why a test needs no agent, judged without running it, or None when it needs one."""
    if changed_files is not None and test.path not in changed_files:
        return f"it has not changed since {plan.changed_since}"
    entry = history.tests.get(test.id)
    if entry is None or entry.print != fingerprinter.fingerprint_test(test.path):
        return None
    if plan.only == "changed":
        return f"it has not changed since run {entry.run} ({entry.outcome})"
    if entry.verdict == "confirmed" and entry.outcome in ("unchanged", "fixed", "improved"):
        return f"nothing has changed since run {entry.run} confirmed it"
    return None
