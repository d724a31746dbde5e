"""The protocol of a pipeline: it brings the tasks, the prompts and the checks, and the scheduler does the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from mngr.base.model import Struct
from mngr.mapreduce.journal.run_state import JournalRow, RunState, TaskState


class AgentOptions(Struct):
    """How and where the agents of a run are created."""

    agent: str = "mechanic"
    args: list[str] = []  # arguments for the agent's program
    on: str = ""  # an address without a name: @HOST, @.PROVIDER
    transfer: str | None = None
    sandbox: bool = False
    network: str | None = None
    yolo: bool = False
    env: dict[str, str] = {}
    agents_per_host: int = 0  # agents that share a created host; 0: each agent has its own
    keep_hosts: bool = False  # hosts stay until the run is cleaned
    name_prefix: str = "map"  # prefix of the agents' names


class Judgement(Struct):
    """The recipe's reading of an agent's work."""

    claim: Mapping[str, object] = {}
    problem: str | None = None  # message for the agent; None when the result is complete


class Recipe(Protocol):
    """A pipeline. `check` and `judge` run in parallel. One thread calls the other methods, which must be quick."""

    def plan_rows(self, state: RunState) -> Sequence[JournalRow]:
        """Return new journal rows that follow from the state: tasks (NewTaskRow) and the recipe's own facts."""
        ...

    def choose_base(self, task: TaskState) -> str | None:
        """Return the commit that the task starts from if it is launched now."""
        ...

    def build_prompt(self, task: TaskState) -> str:
        """Return the prompt for the task's agent."""
        ...

    def judge(self, task: TaskState, folder: str, *, alive: bool) -> Judgement:
        """Read the pulled work, which is in `folder`/outputs."""
        ...

    def can_check_without_run(self, task: TaskState) -> bool:
        """True when `check` has nothing to run, so that it need not wait for other checks."""
        ...

    def check(self, task: TaskState) -> Mapping[str, object] | None:
        """Verify the claim; return None when there is nothing to verify. Raise MngrError when that is not possible."""
        ...

    @property
    def is_waiting_for_host(self) -> bool:
        """True when a check waits until a provider has capacity for its host."""
        ...

    def decide_outcome(self, task: TaskState) -> tuple[str, str | None]:
        """Return the outcome and the reason of a checked task."""
        ...


class UncheckedRecipe:
    """The methods of a recipe whose results `judge` has checked as far as mngr can check them."""

    def can_check_without_run(self, task: TaskState) -> bool:
        """Return True: there is nothing to run."""
        return True

    def check(self, task: TaskState) -> None:
        """Return None: there is nothing to verify."""
        return None

    @property
    def is_waiting_for_host(self) -> bool:
        """Return False: no check needs a host."""
        return False
