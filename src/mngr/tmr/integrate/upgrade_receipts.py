"""Makes full receipts, with audit and mutants, for claims that have only a quick one."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from mngr.api import Fleet
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, apply_row, replay_rows
from mngr.tmr.plan import load_plan
from mngr.tmr.plan_options import open_clean_rooms
from mngr.tmr.prepare.prepare import prepare_run
from mngr.tmr.recipe import TmrRecipe


def make_full_receipts(fleet: Fleet, run: RunDir, report: Callable[[str], None]) -> None:
    """Make the receipts and journal the results: a claim that fails is no longer confirmed. Raise MngrError."""
    plan = load_plan(run).replace(verify="full")
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        state = replay_rows(journal.rows)
        tasks = [task for task in state.list_in_state("settled") if _has_quick_receipt(task)]
        if not tasks:
            return
        clean_rooms = open_clean_rooms(fleet, run, plan)
        prepared = prepare_run(local, run, plan, clean_rooms, journal, lambda row: None)
        recipe = TmrRecipe(local, run, plan, prepared, clean_rooms, {})

        def check(task: TaskState) -> dict[str, Any] | None:
            return recipe.check(task)

        try:
            with concurrent.futures.ThreadPoolExecutor(clean_rooms.max_rooms) as pool:
                for task, receipt in zip(tasks, pool.map(check, tasks), strict=True):
                    slug = task.task.slug
                    updated = apply_row(state, journal.write("checked", slug=slug, check=receipt)).tasks[slug]
                    outcome, reason = recipe.decide_outcome(updated)
                    journal.write("settled", slug=slug, outcome=outcome, reason=reason)
                    report(f"{slug}: {(receipt or {}).get('verdict')}, in full")
        finally:
            clean_rooms.release_hosts()


def _has_quick_receipt(task: TaskState) -> bool:
    check = task.check or {}
    return check.get("verdict") == "confirmed" and check.get("level") == "quick" and task.commit != task.base
