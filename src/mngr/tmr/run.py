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
from mngr.mapreduce.governor import Limits
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.recipe import Wish
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, fold
from mngr.mapreduce.scheduler import Engine
from mngr.tmr.cited_blocks import cited
from mngr.tmr.cleanroom.rooms import Rooms
from mngr.tmr.cleanroom.sandbox import Walls, walls_of
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.plan import Plan, load_plan
from mngr.tmr.prepare.estimate import Estimate, estimate
from mngr.tmr.prepare.flaky import Flaky, FlakyList, is_mixed
from mngr.tmr.prepare.history import Known, Memory, Prints
from mngr.tmr.prepare.prepare import Prepared, baseline_runs, prepare
from mngr.tmr.recipe import Tests

Say = Callable[[dict[str, Any]], None]


def go(
    fleet: Fleet, run: RunDir, limits: Limits, say: Say, agree: Callable[[Estimate], bool] | None = None
) -> RunState:
    """Take a run as far as it gets; raises MngrError when its tests cannot be run, or when another process has it.

    `agree` is asked before the first agent is made.
    """
    plan = load_plan(run)
    local = fleet.context.local
    with Journal(run.journal) as journal:
        rooms = Rooms(fleet, run.name, run.repo, walls=walls_for(fleet, plan))
        judges = judges_of(fleet, run, plan) if plan.verify_on else rooms
        judges.sweep("room", "judge")  # not the jury: an integration may go on beside
        prepared = prepare(local, run, plan, rooms, journal, say)
        _write(os.path.join(run.path, "clusters.json"), {"v": 1, "clusters": prepared.causes})
        found = cited(local, run.repo, plan.base, prepared.tests)
        blocks = {test: "\n\n".join(texts) for test, texts in found.items()}
        recipe = Tests(local, run, plan, prepared, judges, blocks)
        if agree is not None and not fold(journal.rows).tasks:
            briefs = [recipe.brief(one) for one in prepared.chosen]
            expected = estimate(plan, prepared, Memory(run.root), briefs, limits.max_agents, rooms.at_once)
            say(journal.write("estimate", **expected.to_dict()))
            if not agree(expected):
                return fold(journal.rows)
        engine = Engine(fleet, run, journal, recipe, wish_of(plan), limits, say, checks=rooms.at_once)
        try:
            return engine.run()
        finally:
            remember(local, run, plan, fold(journal.rows), prepared)
            note_flaky(local, run, plan, fold(journal.rows), list(recipe.seen.values()))
            judges.close()


def walls_for(fleet: Fleet, plan: Plan) -> Walls | None:
    """What is around the tests that we run."""
    show = fleet.context.settings_at(None).get("sandbox.show") or []
    return walls_of(plan.walls, plan.pytest[0], show)


def judges_of(
    fleet: Fleet, run: RunDir, plan: Plan, called: str = "judge", at_once: int | None = None
) -> Rooms:
    """Rooms in which claims are checked."""
    walls = walls_for(fleet, plan)
    return Rooms(fleet, run.name, run.repo, walls=walls, on=plan.verify_on, called=called, at_once=at_once)


def wish_of(plan: Plan) -> Wish:
    """Who does it, and where."""
    return Wish(
        agent=plan.agent, args=plan.agent_args, on=plan.on, per_host=plan.per_host, keep_hosts=plan.keep_hosts, transfer=plan.transfer, sandbox=plan.sandbox,
        network=plan.network, yolo=plan.yolo, prefix="tmr",
    )  # fmt: skip


def remember(local: Host, run: RunDir, plan: Plan, state: RunState, prepared: Prepared) -> None:
    """What the next run should know of this one."""
    prints: dict[str, Prints] = {}
    found = []
    for one in state.in_state("settled"):
        if one.task.data.get("kind") != "test" or one.task.title not in prepared.tests:
            continue
        standing = prepared.tests[one.task.title]
        commit = one.commit or one.base or plan.base
        if commit not in prints:
            prints[commit] = Prints(local, run.repo, commit, plan.tutorial)
        used = one.usage
        found.append(
            Known(
                test=one.task.title, outcome=str(one.outcome), verdict=(one.check or {}).get("verdict"), run=run.name,
                at=one.ended_at or clock.stamp(), print=prints[commit].of(standing.test.path), seconds=standing.seconds,
                tokens=int(used.get("input_tokens") or 0) + int(used.get("output_tokens") or 0),
                cost=used.get("cost_usd"), reason=one.reason,
            )
        )  # fmt: skip
    if found:
        Memory(run.root).add(found)


def note_flaky(
    local: Host, run: RunDir, plan: Plan, state: RunState, seen: Sequence[list[TestRun]]
) -> list[Flaky]:
    """Keep which tests passed and failed without a change, and what may be behind it."""
    groups = [*baseline_runs(state.facts).values(), *seen]
    flaky = FlakyList(run.root)
    sources: dict[str, str] = {}
    for test in {group[0].test for group in groups if is_mixed(group)}:
        blob = git.run(local, run.repo, "cat-file", "blob", f"{plan.base}:{test.partition('::')[0]}")
        sources[test] = blob.out.decode("utf-8", "replace") if blob.code == 0 else ""
    return flaky.add(groups, sources)


def _write(path: str, data: dict[str, Any]) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)
    os.replace(path + ".new", path)
