"""The loop: who waits for whom."""

from __future__ import annotations

import threading
from typing import Any

from mngr.api import Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.item_recipe import ItemRecipe
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.recipe import AgentOptions
from mngr.mapreduce.run_repo import create_run
from mngr.mapreduce.run_state import TaskState
from mngr.mapreduce.scheduler import Scheduler
from tests.conftest import MngrProgram


def test_what_nobody_has_to_run_is_settled_while_another_is_checked(mngr: MngrProgram) -> None:
    fleet, sign, over = (
        Fleet(str(mngr.home), cwd=str(mngr.repo)),
        mngr.home.parent / "sign",
        threading.Event(),
    )
    seen: list[bool] = []

    class Slow(ItemRecipe):
        """Looks at the first item until the second is settled."""

        def can_check_without_run(self, one: TaskState) -> bool:
            return one.task.title == "second"

        def check(self, one: TaskState) -> None:
            if one.task.title == "first":
                sign.touch()
                seen.append(over.wait(15))

    def hear(row: dict[str, Any]) -> None:
        if row["type"] == "settled" and row["slug"].startswith("second"):
            over.set()

    place, base = create_run(fleet, str(mngr.repo), "r")
    line = f"test $0 = first || until test -e {sign}; do sleep 0.05; done"
    recipe = Slow(["first", "second"], None, ["sh", "-c", line, "{item}"], base, None)
    with Journal(place.journal) as journal:
        wish = AgentOptions(agent="command", transfer="mirror", prefix="map")
        state = Scheduler(fleet, place, journal, recipe, wish, RunLimits(max_agents=2), hear, checks=1).run()
    assert [one.outcome for one in state.tasks.values()] == ["done", "done"]
    assert seen == [True]
