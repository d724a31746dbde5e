"""Saves what a run leaves for later runs: how each test ended, and which tests are flaky."""

from __future__ import annotations

from collections.abc import Sequence

from mngr.base import time_format
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.run_state import RunState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.prepare.history.earlier_results import Fingerprinter, HistoryEntry, RunHistory
from mngr.tmr.prepare.history.flaky_list import FlakyTest, FlakyTestFile, has_mixed_outcomes
from mngr.tmr.prepare.journal_facts import list_baseline_runs
from mngr.tmr.prepare.prepare import PreparedTests
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.verify.receipt import find_verdict


def save_history(local: Host, run: RunDir, plan: RunPlan, state: RunState, prepared: PreparedTests) -> None:
    """Save how each test ended, for the next run."""
    fingerprinters: dict[str, Fingerprinter] = {}
    entries = []
    for task in state.list_in_state("settled"):
        if task.task.data.get("kind") != "test" or task.task.title not in prepared.tests:
            continue
        baseline = prepared.tests[task.task.title]
        commit = task.commit or task.base or plan.base
        if commit not in fingerprinters:
            fingerprinters[commit] = Fingerprinter(local, run.repo, commit, plan.tutorial)
        usage = task.usage or AgentUsage(cost_usd=None)
        entries.append(
            HistoryEntry(
                test=task.task.title,
                outcome=str(task.outcome),
                verdict=find_verdict(task.check),
                run=run.name,
                at=task.ended_at or time_format.format_timestamp(),
                fingerprint=fingerprinters[commit].fingerprint_test(baseline.test.path),
                commit=commit,
                seconds=baseline.seconds,
                tokens=usage.tokens,
                cost=usage.cost_usd,
                reason=task.reason,
            )
        )
    if entries:
        RunHistory(local.home, run.root).add(entries)


def record_flaky_tests(
    local: Host, run: RunDir, plan: RunPlan, state: RunState, receipt_runs: Sequence[list[TestRun]]
) -> list[FlakyTest]:
    """Record the tests that both passed and failed without a change. Return them with possible causes."""
    groups: list[Sequence[TestRun]] = [*receipt_runs]
    for runs in list_baseline_runs(
        state, with_reused=False
    ).values():  # a difference between suite and alone is no flakiness
        groups += [group for seen in ("suite", "alone") if (group := [run for run in runs if run.seen == seen])]
    flaky = FlakyTestFile(local.home, run.root)
    sources: dict[str, str] = {}
    for test in {group[0].test for group in groups if has_mixed_outcomes(group)}:
        blob = git.run(
            local, run.repo, "cat-file", "blob", f"{plan.base}:{test.partition('::')[0]}", git_command=git.ISOLATED_GIT
        )
        sources[test] = blob.out.decode("utf-8", "replace") if blob.code == 0 else ""
    return flaky.add_runs(groups, sources)
