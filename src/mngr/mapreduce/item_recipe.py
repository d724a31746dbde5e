"""`mngr map`: a recipe for anything, one agent for each item of a list."""

from __future__ import annotations

import os
from typing import Any

from mngr.mapreduce.recipe import Judgement
from mngr.mapreduce.run_dir import make_slug
from mngr.mapreduce.run_state import RunState, Task, TaskState


class ItemRecipe:
    """Each item is told to an agent by a template; what it leaves in its output directory is its result."""

    def __init__(
        self, items: list[str], prompt: str | None, args: list[str], base: str | None, output: str | None
    ) -> None:
        self._items = items
        self._prompt = prompt
        self._args = args
        self._base = base
        self._output = output  # a file that must be there in the end

    def plan_rows(self, state: RunState) -> list[dict[str, Any]]:
        """All of them, once."""
        rows = []
        for number, item in enumerate(self._items, 1):
            args = [fill_placeholders(word, item, number) for word in self._args]
            task = Task(slug=make_slug(item, f" {number}"), title=item, data={"number": number, "args": args})
            if task.slug not in state.tasks:
                rows.append({"type": "task", "task": task.to_dict()})
        return rows

    def choose_base(self, one: TaskState) -> str | None:
        """The same for all."""
        return self._base

    def build_prompt(self, one: TaskState) -> str:
        """The template with the item in its place."""
        if self._prompt is None:
            return ""
        text = fill_placeholders(self._prompt, one.task.title, one.task.data["number"])
        if self._output is not None:
            text += f"\n\nWrite the result to the file $MNGR_OUTPUT_DIR/{self._output} when you are done.\n"
        return text

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Whether the file that was asked for is there."""
        place = os.path.join(folder, "outputs")
        found = sorted(os.listdir(place)) if os.path.isdir(place) else []
        problem = None
        if self._output is not None and self._output not in found:
            problem = f"The file $MNGR_OUTPUT_DIR/{self._output} is missing. Write it: it is your result."
        return Judgement(claim={"outputs": found}, problem=problem)

    def can_check_without_run(self, one: TaskState) -> bool:
        """Always: nothing is run."""
        return True

    def check(self, one: TaskState) -> None:
        """There is nothing that we could see ourselves."""
        return None

    def decide_outcome(self, one: TaskState) -> tuple[str, str | None]:
        """Done, unless it ended badly or left nothing."""
        why = one.claim.get("closed") or one.claim.get("problem")
        return ("failed", why) if why else ("done", None)


def fill_placeholders(template: str, item: str, number: int) -> str:
    """`{item}` and `{number}` in their places; any other brace is what it is."""
    return template.replace("{number}", str(number)).replace("{item}", item)
