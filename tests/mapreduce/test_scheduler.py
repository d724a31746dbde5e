"""The loop of a run: which task waits for which."""

from __future__ import annotations

import threading

from mngr.api import Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_file import Journal, JournaledState
from mngr.mapreduce.journal.journal_rows import SettledRow
from mngr.mapreduce.journal.run_state import JournalRow, TaskState
from mngr.mapreduce.map_recipe import ItemRecipe
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_repo import create_run
from mngr.mapreduce.scheduler import Scheduler
from tests.conftest import MngrProgram


def test_a_task_without_a_check_run_settles_while_another_is_checked(mngr: MngrProgram) -> None:
    fleet, go_file, second_settled = (
        Fleet(str(mngr.home), cwd=str(mngr.repo)),
        mngr.home.parent / "sign",
        threading.Event(),
    )
    waits: list[bool] = []

    class Slow(ItemRecipe):
        """Checks the first item until the second is settled."""

        def can_check_without_run(self, task: TaskState) -> bool:
            return task.task.title == "second"

        def check(self, task: TaskState) -> None:
            if task.task.title == "first":
                go_file.touch()
                waits.append(second_settled.wait(15))

    def on_row(row: JournalRow) -> None:
        if isinstance(row, SettledRow) and row.slug.startswith("second"):
            second_settled.set()

    run_dir, base = create_run(fleet, str(mngr.repo), "r")
    script = f"test $0 = first || until test -e {go_file}; do sleep 0.05; done"
    recipe = Slow(["first", "second"], None, ["sh", "-c", script, "{item}"], base, None)
    with Journal(run_dir.journal) as journal:
        options = AgentOptions(agent="command", transfer="mirror", name_prefix="map")
        run_state = JournaledState(journal, on_row)
        limits = RunLimits(max_agents=2)
        state = Scheduler(fleet, run_dir, run_state, recipe, options, limits, checks=1).run()
    assert [task.outcome for task in state.tasks.values()] == ["done", "done"]
    assert waits == [True]
