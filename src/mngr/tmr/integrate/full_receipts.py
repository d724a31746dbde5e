"""What is to be integrated is looked at more closely: a receipt in full, audit and faults included, where there is a quick one."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from mngr.api import Fleet
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, apply_row, replay_rows
from mngr.tmr.plan import load_plan
from mngr.tmr.prepare.prepare import prepare_run
from mngr.tmr.recipe import TmrRecipe
from mngr.tmr.run import open_clean_rooms


def make_full_receipts(fleet: Fleet, run: RunDir, say: Callable[[str], None]) -> None:
    """Make them, and write down what came of it: a claim that does not stand up to it is no longer confirmed. Raises MngrError."""
    plan = load_plan(run).replace(verify="full")
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        state = replay_rows(journal.rows)
        wanted = [one for one in state.list_in_state("settled") if _has_quick_receipt(one)]
        if not wanted:
            return
        judges = open_clean_rooms(fleet, run, plan)
        prepared = prepare_run(local, run, plan, judges, journal, lambda row: None)
        recipe = TmrRecipe(local, run, plan, prepared, judges, {})

        def check(one: TaskState) -> dict[str, Any] | None:
            return recipe.check(one)

        try:
            with concurrent.futures.ThreadPoolExecutor(judges.max_rooms) as pool:
                for one, found in zip(wanted, pool.map(check, wanted), strict=True):
                    slug = one.task.slug
                    after = apply_row(state, journal.write("checked", slug=slug, check=found)).tasks[slug]
                    outcome, reason = recipe.decide_outcome(after)
                    journal.write("settled", slug=slug, outcome=outcome, reason=reason)
                    say(f"{slug}: {(found or {}).get('verdict')}, in full")
        finally:
            judges.release_hosts()


def _has_quick_receipt(one: TaskState) -> bool:
    check = one.check or {}
    return check.get("verdict") == "confirmed" and check.get("level") == "quick" and one.commit != one.base
