"""Makes full receipts, with more experiments, for claims that have only a quick one."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Callable

from mngr.api import Fleet
from mngr.mapreduce.journal.journal_file import Journal
from mngr.mapreduce.journal.journal_rows import CheckedRow, SettledRow
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_state import TaskState
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.clean_room_and_agent_options import open_clean_rooms
from mngr.tmr.prepare.prepare import prepare_run
from mngr.tmr.recipe import TmrRecipe
from mngr.tmr.run_plan import load_plan
from mngr.tmr.verify.receipt import find_receipt, find_verdict


def make_full_receipts(fleet: Fleet, run: RunDir, report: Callable[[str], None]) -> None:
    """Make the receipts and journal the results: a claim that fails is no longer confirmed. Raise MngrError."""
    plan = load_plan(run).replace(verify="full")
    local = fleet.context.local_host
    with Journal(run.journal) as journal:
        replay = Replay(journal.rows)
        tasks = [task for task in replay.state.list_in_state("settled") if _has_quick_receipt(task)]
        if not tasks:
            return
        with contextlib.closing(open_clean_rooms(fleet, run, plan)) as clean_rooms:
            prepared = prepare_run(local, run, plan, clean_rooms, journal, lambda row: None)
            recipe = TmrRecipe(local, run, plan, prepared, clean_rooms, {})
            with concurrent.futures.ThreadPoolExecutor(clean_rooms.max_rooms) as pool:
                for task, receipt in zip(tasks, pool.map(recipe.check, tasks), strict=True):
                    slug = task.task.slug
                    replay.add(journal.write(CheckedRow(slug=slug, check=receipt)))
                    outcome, reason = recipe.decide_outcome(replay.state.tasks[slug])
                    journal.write(SettledRow(slug=slug, outcome=outcome, reason=reason))
                    report(f"{slug}: {find_verdict(receipt)} after full verification")


def _has_quick_receipt(task: TaskState) -> bool:
    receipt = find_receipt(task.check)
    if receipt is None or task.commit == task.base:
        return False
    return receipt.verdict == "confirmed" and receipt.level == "quick"
