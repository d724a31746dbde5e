"""What a pipeline brings: what to do, how to tell it, and how to know that it was done. The engine does the rest."""

from __future__ import annotations

from typing import Any, Protocol

from mngr.base.model import Struct
from mngr.mapreduce.run_state import RunState, TaskState


class AgentOptions(Struct):
    """Who shall do it, and where."""

    agent: str = "mechanic"
    args: list[str] = []  # for the agent's program
    on: str = ""  # an address without a name: @HOST, @.PROVIDER
    transfer: str | None = None
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    env: dict[str, str] = {}
    per_host: int = 0  # agents that share a host which a provider makes; 0: each has its own
    keep_hosts: bool = False  # they stay until the run is cleaned
    prefix: str = "map"  # of the agents' names


class Judgement(Struct):
    """What came home, as the recipe sees it."""

    claim: dict[str, Any] = {}
    problem: str | None = None  # what the agent has to be told; None when there is nothing more to ask of it


class Recipe(Protocol):
    """A pipeline. Everything but `check` and `judge` is quick and called by one thread; those run beside each other."""

    def plan_rows(self, state: RunState) -> list[dict[str, Any]]:
        """Rows for the journal that follow from the state and are not in it: tasks (`type: task`), and facts of its own."""
        ...

    def choose_base(self, one: TaskState) -> str | None:
        """The commit that a task starts from, if it is launched now."""
        ...

    def build_prompt(self, one: TaskState) -> str:
        """What the agent is told."""
        ...

    def judge(self, one: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Look at what came home: `folder` has `outputs`."""
        ...

    def can_check_without_run(self, one: TaskState) -> bool:
        """Whether `check` has nothing to run, so that it waits for no other."""
        ...

    def check(self, one: TaskState) -> dict[str, Any] | None:
        """See for ourselves; None when there is nothing to see. Raises MngrError when that cannot be done now."""
        ...

    def decide_outcome(self, one: TaskState) -> tuple[str, str | None]:
        """Outcome and reason of a task that was checked."""
        ...
