"""The recipe of `mngr map`, one agent for each item of a list, and its plan, `run.json`."""

from __future__ import annotations

import json
import os

from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_rows import NewTaskRow
from mngr.mapreduce.journal.run_state import RunState, Task, TaskState
from mngr.mapreduce.recipe import AgentOptions, Judgement, UncheckedRecipe
from mngr.mapreduce.run_dir import RunDir, make_slug


class MapPlan(Struct):
    """The items of a run and how agents work on them."""

    items: list[str]
    prompt: str | None  # the template; None when each item gets a command
    args: list[str]  # the command, or arguments for the agent's program
    agent: str
    output: str | None = None  # the output file that every agent must write
    base: str | None = None
    limits: RunLimits = RunLimits()
    options: AgentOptions | None = None


class ItemRecipe(UncheckedRecipe):
    """Sends each item to an agent in a prompt template. The agent's output directory holds its result."""

    def __init__(
        self, items: list[str], prompt: str | None, args: list[str], base: str | None, output: str | None
    ) -> None:
        self._items = items
        self._prompt = prompt
        self._args = args
        self._base = base
        self._output = output  # the output file that every agent must write

    def plan_rows(self, state: RunState) -> list[NewTaskRow]:
        """Return a task for each item that has none yet."""
        rows = []
        for number, item in enumerate(self._items, 1):
            args = [fill_placeholders(word, item, number) for word in self._args]
            task = Task(slug=make_slug(item, f" {number}"), title=item, agent_args=args, data={"number": str(number)})
            if task.slug not in state.tasks:
                rows.append(NewTaskRow(task=task))
        return rows

    def choose_base(self, task: TaskState) -> str | None:
        """Return the run's base, which is the same for all tasks."""
        return self._base

    def build_prompt(self, task: TaskState) -> str:
        """Return the template with the item filled in, and name the required output file."""
        if self._prompt is None:
            return ""
        text = fill_placeholders(self._prompt, task.task.title, int(task.task.data["number"]))
        if self._output is not None:
            text += f"\n\nWrite the result to the file $MNGR_OUTPUT_DIR/{self._output} when you are done.\n"
        return text

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Return the names of the outputs, and a problem if the required file is missing."""
        outputs_dir = os.path.join(folder, "outputs")
        names = sorted(os.listdir(outputs_dir)) if os.path.isdir(outputs_dir) else []
        problem = None
        if self._output is not None and self._output not in names:
            problem = f"The file $MNGR_OUTPUT_DIR/{self._output} is missing. Write it: it is your result."
        return Judgement(claim={"outputs": names}, problem=problem)

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return "done", or "failed" with the reason if the agent ended badly or left no result."""
        reason = task.close_reason or task.problem
        return ("failed", reason) if reason else ("done", None)


def fill_placeholders(template: str, item: str, number: int) -> str:
    """Replace `{item}` and `{number}` in the template; other braces stay as they are."""
    return template.replace("{number}", str(number)).replace("{item}", item)


def save_map_plan(run: RunDir, plan: MapPlan) -> None:
    """Write the plan to the run's folder."""
    with open(run.plan, "w", encoding="utf-8") as file:
        json.dump({"v": 1, "kind": "map", **encode(plan)}, file, indent=2)


def load_map_plan(run: RunDir) -> MapPlan:
    """Read the plan. Raise MngrError when the run is not one of `mngr map`."""
    with open(run.plan, encoding="utf-8") as file:
        data = as_object(json.load(file))
    if data.get("kind") != "map":
        raise MngrError(f"{run.name} is a run of `mngr tmr`", f"continue it: mngr tmr resume {run.name}")
    return decode(MapPlan, data)
