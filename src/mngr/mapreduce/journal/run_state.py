"""The state of a run and of its tasks. `replay.py` computes it from the rows of the journal."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mngr.base.model import Struct
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.journal.host_costs import HostTable

# The states of a task. queued: not launched yet. launching: its agent is being created or prompted. working.
# parked: its model reached a limit. talking: its agent is being reminded. pulling: its work is being collected.
# checking: its claim is being verified. settled.
ACTIVE_STATES = ("launching", "working", "talking", "pulling")  # the states in which a task has an agent that may run


class JournalRow(Struct):
    """A row of the journal. Each type of row is a class."""

    type_name = ""
    at: str = ""  # the journal sets the time when it writes the row

    def describe(self) -> str:
        """Return the row as one line for people, or an empty text if it is not worth a line."""
        return ""


class RecipeRow(JournalRow):
    """A row that only the recipe understands."""

    type: str
    fields: Mapping[str, object] = {}


class Task(Struct):
    """A unit of work for one agent."""

    slug: str
    title: str
    expected_seconds: float = 0.0
    priority: int = 0  # higher values are launched first
    agent_kind: str | None = None  # instead of the run's
    agent_args: list[str] | None = None  # instead of the run's
    hint: str = ""  # a person's hint for the next agents
    existing_agent: str | None = None  # an agent that gets the prompt, instead of a new one
    branch: str | None = None  # where the existing agent commits, from the task's base
    message: str | None = None  # the text for the existing agent, instead of the recipe's prompt
    answered_claim: str | None = None  # identifies the claim that the message is about
    usage_purpose: str | None = None  # how to book the usage, if not as work, retries or reminders
    data: Mapping[str, str] = {}  # the recipe's own data


class TaskState(Struct):
    """A task and its progress."""

    task: Task
    state: str = "queued"
    agent: str | None = None
    agent_id: str | None = None
    agent_kind: str | None = None  # the kind of `agent`; None before its launch
    host: str | None = None
    attempt: int = 0  # number of launches
    base: str | None = None  # the commit that it started from
    is_prompted: bool = False
    reminders: int = 0
    commit: str | None = None
    claim: Mapping[str, object] = {}  # the agent's claim, as the recipe read it
    problem: str | None = None  # what was wrong with the work when it was collected for the last time
    check: Mapping[str, object] | None = None  # the result of the recipe's own check
    outcome: str | None = None
    reason: str | None = None
    parked_until: str | None = None
    usage: AgentUsage | None = None  # what all its agents have used; None when nothing is known
    agent_usage: AgentUsage = AgentUsage()  # what its present agent has used
    usage_by_purpose: Mapping[str, AgentUsage] = {}  # `usage` split into work, retries, reminders and others
    tokens_before_edit: int | None = None  # tokens that its agent used before it first changed a file
    began_at: str | None = None
    ended_at: str | None = None
    is_stopped: bool = False
    close_reason: str | None = None  # why its work was pulled although the agent had not finished

    def find_agent_kind(self) -> str | None:
        """Return the kind of the task's agent, or None when only the run's plan knows it."""
        return self.agent_kind or self.task.agent_kind


class Alert(Struct):
    """A message of the run to the person who watches it."""

    at: str
    type: str  # alert, alarm or alarm_over
    text: str


class TaskTable(Mapping[str, TaskState]):
    """The tasks of a run by slug, in order of creation. Counts and sums do not slow down with the number of tasks.

    The table changes with `put`, and each task in it is frozen.
    """

    def __init__(self, tasks: Iterable[TaskState] = ()) -> None:
        self._tasks: dict[str, TaskState] = {}
        self._positions: dict[str, int] = {}  # the order of creation, by slug
        self._slugs_by_state: dict[str, set[str]] = {}
        self._queue: list[tuple[float, float, int, str]] = []  # queued tasks in the order of launch; the slug is last
        self.cost_usd = 0.0  # what all tasks have used, as far as it is known
        self.budget_tokens = 0
        self.success_count = 0  # settled tasks that did not fail
        for task in tasks:
            self.put(task)

    def __repr__(self) -> str:
        return f"TaskTable({self._tasks!r})"

    def __getitem__(self, slug: str) -> TaskState:
        return self._tasks[slug]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def put(self, task: TaskState) -> None:
        """Add or replace a task. Only the replay of the journal does this."""
        slug = task.task.slug
        old = self._tasks.get(slug)
        if old is not None:
            self._remove_from_indexes(old)
        self._positions.setdefault(slug, len(self._positions))
        self._tasks[slug] = task
        self._slugs_by_state.setdefault(task.state, set()).add(slug)
        if task.state == "queued":
            bisect.insort(self._queue, self._make_queue_key(task))
        self._add_to_totals(task, 1)

    def _remove_from_indexes(self, task: TaskState) -> None:
        self._slugs_by_state[task.state].discard(task.task.slug)
        if task.state == "queued":
            del self._queue[bisect.bisect_left(self._queue, self._make_queue_key(task))]
        self._add_to_totals(task, -1)

    def _add_to_totals(self, task: TaskState, sign: int) -> None:
        self.success_count += sign * (task.state == "settled" and task.outcome != "failed")
        if task.usage is not None:
            self.cost_usd += sign * (task.usage.cost_usd or 0.0)
            self.budget_tokens += sign * task.usage.budget_tokens

    def _make_queue_key(self, task: TaskState) -> tuple[float, float, int, str]:
        slug = task.task.slug
        return -task.task.priority, -task.task.expected_seconds, self._positions[slug], slug

    def count_in_state(self, *states: str) -> int:
        """Return the number of tasks in these states."""
        return sum(len(self._slugs_by_state.get(state, ())) for state in states)

    def list_in_state(self, *states: str) -> list[TaskState]:
        """Return the tasks in these states, in order of creation."""
        slugs = [slug for state in states for slug in self._slugs_by_state.get(state, ())]
        return [self._tasks[slug] for slug in sorted(slugs, key=self._positions.__getitem__)]

    def iter_queue(self, excluded: Collection[str] = ()) -> Iterator[TaskState]:
        """Yield the queued tasks in the order of launch: by priority, then the longest first."""
        return (self._tasks[key[-1]] for key in self._queue if key[-1] not in excluded)


@dataclass
class RunState:
    """A run and all of its tasks. This object changes: the replay that made it applies each new row of the journal to it.

    Only the replay changes it. A copy for each row would make the replay of a large run slow.
    """

    tasks: TaskTable = field(default_factory=TaskTable)
    recipe_rows: dict[str, list[RecipeRow]] = field(default_factory=dict)  # the recipe's own rows, by type
    alerts: list[Alert] = field(default_factory=list)
    open_alarm: Alert | None = None  # nothing is launched while an alarm is open
    wait_reason: str | None = None  # why nothing is launched
    hosts: HostTable = field(default_factory=HostTable)  # the hosts that a provider created for the run
    snapshot: str | None = None  # the snapshot that new hosts are created from
    pending_snapshot: str | None = None  # the snapshot that is being made
    is_finished: bool = False

    @property
    def is_settled(self) -> bool:
        """True when all tasks are settled."""
        return self.tasks.count_in_state("settled") == len(self.tasks)

    def list_in_state(self, *states: str) -> list[TaskState]:
        """Return the tasks in these states, in order of creation."""
        return self.tasks.list_in_state(*states)
