"""Executes a run from its plan to its end: prepares it, then runs the scheduler. Resuming a run takes the same path."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from mngr.api import Fleet
from mngr.base import clock
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, replay_rows
from mngr.mapreduce.scheduler import Scheduler
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox, parse_isolation
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.plan import RunPlan, load_plan
from mngr.tmr.prepare.estimate import Estimate, estimate_run
from mngr.tmr.prepare.flaky import FlakyTest, FlakyTestFile, has_mixed_outcomes
from mngr.tmr.prepare.history import Fingerprinter, HistoryEntry, RunHistory
from mngr.tmr.prepare.prepare import PreparedTests, list_baseline_runs, prepare_run
from mngr.tmr.recipe import TmrRecipe

RowListener = Callable[[dict[str, Any]], None]


def execute_run(
    fleet: Fleet,
    run: RunDir,
    limits: RunLimits,
    on_row: RowListener,
    confirm: Callable[[Estimate], bool] | None = None,
) -> RunState:
    """Run as far as possible and return the state. `confirm` is asked before the first agent is created.

    Raise MngrError when the tests cannot be run, or when another process executes the run.
    """
    plan = load_plan(run)
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        clean_rooms = CleanRoomPool(fleet, run.name, run.repo, walls=choose_sandbox(fleet, plan))
        verify_rooms = open_clean_rooms(fleet, run, plan) if plan.verify_on else clean_rooms
        # The clean rooms of an integration stay, because it may be running at the same time.
        verify_rooms.remove_leftovers("room", "judge")
        prepared = prepare_run(local, run, plan, clean_rooms, journal, on_row)
        _write_json(os.path.join(run.path, "clusters.json"), {"v": 1, "clusters": prepared.root_causes})
        cited = list_cited_blocks(local, run.repo, plan.base, prepared.tests)
        blocks = {test: "\n\n".join(texts) for test, texts in cited.items()}
        recipe = TmrRecipe(local, run, plan, prepared, verify_rooms, blocks)
        if confirm is not None and not replay_rows(journal.rows).tasks:
            prompts = [recipe.build_test_prompt(baseline) for baseline in prepared.selected_tests]
            estimate = estimate_run(
                plan, prepared, RunHistory(run.root), prompts, limits.max_agents, clean_rooms.max_rooms
            )
            on_row(journal.write("estimate", **estimate.to_dict()))
            if not confirm(estimate):
                return replay_rows(journal.rows)
        scheduler = Scheduler(
            fleet, run, journal, recipe, build_agent_options(plan), limits, on_row, checks=clean_rooms.max_rooms
        )
        try:
            return scheduler.run()
        finally:
            save_history(local, run, plan, replay_rows(journal.rows), prepared)
            record_flaky_tests(local, run, plan, replay_rows(journal.rows), list(recipe.receipt_runs.values()))
            verify_rooms.release_hosts()


def choose_sandbox(fleet: Fleet, plan: RunPlan) -> CleanRoomSandbox | None:
    """Return the sandbox for the tests that mngr runs, or None without isolation."""
    show = fleet.context.load_project_settings(None).get("sandbox.show") or []
    return parse_isolation(plan.walls, plan.pytest[0], show)


def open_clean_rooms(
    fleet: Fleet, run: RunDir, plan: RunPlan, name_prefix: str = "judge", max_rooms: int | None = None
) -> CleanRoomPool:
    """Return the pool of clean rooms in which claims are verified."""
    sandbox = choose_sandbox(fleet, plan)
    return CleanRoomPool(
        fleet, run.name, run.repo, walls=sandbox, on=plan.verify_on, name_prefix=name_prefix, at_once=max_rooms
    )


def build_agent_options(plan: RunPlan) -> AgentOptions:
    """Return the agents' options from the plan."""
    return AgentOptions(
        agent=plan.agent, args=plan.agent_args, on=plan.on, per_host=plan.per_host, keep_hosts=plan.keep_hosts, transfer=plan.transfer, sandbox=plan.sandbox,
        network=plan.network, yolo=plan.yolo, prefix="tmr",
    )  # fmt: skip


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
        usage = task.usage
        entries.append(
            HistoryEntry(
                test=task.task.title, outcome=str(task.outcome), verdict=(task.check or {}).get("verdict"), run=run.name,
                at=task.ended_at or clock.format_timestamp(), print=fingerprinters[commit].fingerprint_test(baseline.test.path), seconds=baseline.seconds,
                tokens=int(usage.get("input_tokens") or 0) + int(usage.get("output_tokens") or 0),
                cost=usage.get("cost_usd"), reason=task.reason,
            )
        )  # fmt: skip
    if entries:
        RunHistory(run.root).add(entries)


def record_flaky_tests(
    local: Host, run: RunDir, plan: RunPlan, state: RunState, receipt_runs: Sequence[list[TestRun]]
) -> list[FlakyTest]:
    """Record the tests that both passed and failed without a change. Return them with possible causes."""
    groups = [*list_baseline_runs(state.recipe_rows).values(), *receipt_runs]
    flaky = FlakyTestFile(run.root)
    sources: dict[str, str] = {}
    for test in {group[0].test for group in groups if has_mixed_outcomes(group)}:
        blob = git.run(local, run.repo, "cat-file", "blob", f"{plan.base}:{test.partition('::')[0]}")
        sources[test] = blob.out.decode("utf-8", "replace") if blob.code == 0 else ""
    return flaky.add_runs(groups, sources)


def _write_json(path: str, data: dict[str, Any]) -> None:
    """Replace a JSON file in one step."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(path + ".new", path)
