"""A run from its plan to its end: prepare, then the engine with the recipe for tests; the same when it goes on."""

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
    say: RowListener,
    agree: Callable[[Estimate], bool] | None = None,
) -> RunState:
    """Take a run as far as it gets; raises MngrError when its tests cannot be run, or when another process has it.

    `agree` is asked before the first agent is made.
    """
    plan = load_plan(run)
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        rooms = CleanRoomPool(fleet, run.name, run.repo, walls=choose_sandbox(fleet, plan))
        judges = open_clean_rooms(fleet, run, plan) if plan.verify_on else rooms
        judges.remove_leftovers("room", "judge")  # not the jury: an integration may go on beside
        prepared = prepare_run(local, run, plan, rooms, journal, say)
        _write_json(os.path.join(run.path, "clusters.json"), {"v": 1, "clusters": prepared.root_causes})
        found = list_cited_blocks(local, run.repo, plan.base, prepared.tests)
        blocks = {test: "\n\n".join(texts) for test, texts in found.items()}
        recipe = TmrRecipe(local, run, plan, prepared, judges, blocks)
        if agree is not None and not replay_rows(journal.rows).tasks:
            briefs = [recipe.build_test_prompt(one) for one in prepared.selected_tests]
            expected = estimate_run(plan, prepared, RunHistory(run.root), briefs, limits.max_agents, rooms.max_rooms)
            say(journal.write("estimate", **expected.to_dict()))
            if not agree(expected):
                return replay_rows(journal.rows)
        engine = Scheduler(fleet, run, journal, recipe, build_agent_options(plan), limits, say, checks=rooms.max_rooms)
        try:
            return engine.run()
        finally:
            save_history(local, run, plan, replay_rows(journal.rows), prepared)
            record_flaky_tests(local, run, plan, replay_rows(journal.rows), list(recipe.receipt_runs.values()))
            judges.release_hosts()


def choose_sandbox(fleet: Fleet, plan: RunPlan) -> CleanRoomSandbox | None:
    """What is around the tests that we run."""
    show = fleet.context.load_project_settings(None).get("sandbox.show") or []
    return parse_isolation(plan.walls, plan.pytest[0], show)


def open_clean_rooms(
    fleet: Fleet, run: RunDir, plan: RunPlan, called: str = "judge", at_once: int | None = None
) -> CleanRoomPool:
    """Rooms in which claims are checked."""
    walls = choose_sandbox(fleet, plan)
    return CleanRoomPool(fleet, run.name, run.repo, walls=walls, on=plan.verify_on, called=called, at_once=at_once)


def build_agent_options(plan: RunPlan) -> AgentOptions:
    """Who does it, and where."""
    return AgentOptions(
        agent=plan.agent, args=plan.agent_args, on=plan.on, per_host=plan.per_host, keep_hosts=plan.keep_hosts, transfer=plan.transfer, sandbox=plan.sandbox,
        network=plan.network, yolo=plan.yolo, prefix="tmr",
    )  # fmt: skip


def save_history(local: Host, run: RunDir, plan: RunPlan, state: RunState, prepared: PreparedTests) -> None:
    """What the next run should know of this one."""
    prints: dict[str, Fingerprinter] = {}
    found = []
    for one in state.list_in_state("settled"):
        if one.task.data.get("kind") != "test" or one.task.title not in prepared.tests:
            continue
        standing = prepared.tests[one.task.title]
        commit = one.commit or one.base or plan.base
        if commit not in prints:
            prints[commit] = Fingerprinter(local, run.repo, commit, plan.tutorial)
        used = one.usage
        found.append(
            HistoryEntry(
                test=one.task.title, outcome=str(one.outcome), verdict=(one.check or {}).get("verdict"), run=run.name,
                at=one.ended_at or clock.format_timestamp(), print=prints[commit].fingerprint_test(standing.test.path), seconds=standing.seconds,
                tokens=int(used.get("input_tokens") or 0) + int(used.get("output_tokens") or 0),
                cost=used.get("cost_usd"), reason=one.reason,
            )
        )  # fmt: skip
    if found:
        RunHistory(run.root).add(found)


def record_flaky_tests(
    local: Host, run: RunDir, plan: RunPlan, state: RunState, seen: Sequence[list[TestRun]]
) -> list[FlakyTest]:
    """Keep which tests passed and failed without a change, and what may be behind it."""
    groups = [*list_baseline_runs(state.recipe_rows).values(), *seen]
    flaky = FlakyTestFile(run.root)
    sources: dict[str, str] = {}
    for test in {group[0].test for group in groups if has_mixed_outcomes(group)}:
        blob = git.run(local, run.repo, "cat-file", "blob", f"{plan.base}:{test.partition('::')[0]}")
        sources[test] = blob.out.decode("utf-8", "replace") if blob.code == 0 else ""
    return flaky.add_runs(groups, sources)


def _write_json(path: str, data: dict[str, Any]) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(path + ".new", path)
