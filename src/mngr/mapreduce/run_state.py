"""The state of a run, computed from the rows of its journal."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.mapreduce import host_costs
from mngr.mapreduce.host_costs import RunHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

# The states of a task. queued: not launched yet. launching: its agent is being created or prompted. working.
# parked: its model reached a limit. talking: its agent is being reminded. pulling: its work is being collected.
# checking: its claim is being verified. settled.
ACTIVE_STATES = ("launching", "working", "talking", "pulling")  # the states in which a task has an agent that may run
# Keys of a task's data that hold for one attempt only.
_SINGLE_ATTEMPT_KEYS = ("who", "branch", "spend", "tell", "answered")
TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Task(Struct):
    """A unit of work for one agent."""

    slug: str
    title: str
    seconds: float = 0.0  # expected duration
    first: int = 0  # priority: higher values are launched first
    # The recipe's own data. The scheduler reads `agent` and `args` (instead of the run's), `who` (an existing agent
    # that gets the prompt), `branch` (where that agent commits, from the task's base) and `spend` (how to book usage).
    data: Mapping[str, Any] = {}


class TaskState(Struct):
    """A task and its progress."""

    task: Task
    state: str = "queued"
    agent: str | None = None
    agent_id: str | None = None
    host: str | None = None
    attempt: int = 0  # number of launches
    base: str | None = None  # the commit that it started from
    is_prompted: bool = False
    reminders: int = 0
    commit: str | None = None
    claim: dict[str, Any] = {}  # the agent's claim, as the recipe read it
    check: Mapping[str, Any] | None = None  # the result of the recipe's own check
    outcome: str | None = None
    reason: str | None = None
    parked_until: str | None = None
    usage: Mapping[str, Any] = {}  # what all its agents have used
    own: Mapping[str, Any] = {}  # what its present agent has used
    spend: Mapping[str, Mapping[str, Any]] = {}  # `usage` split into work, retries and reminders
    before_edit: int | None = None  # tokens that its agent used before it first changed a file
    began_at: str | None = None
    ended_at: str | None = None
    is_stopped: bool = False
    closed: str | None = None  # why its work was pulled although the agent had not finished


class Alert(Struct):
    """A message of the run to the person who watches it."""

    at: str
    type: str  # alert, alarm or alarm_over
    text: str


class RunState(Struct):
    """A run and all of its tasks."""

    tasks: Mapping[str, TaskState] = {}
    recipe_rows: Mapping[str, Sequence[dict[str, Any]]] = {}  # the recipe's own rows, by type
    alerts: Sequence[Alert] = ()
    open_alarm: Alert | None = None  # nothing is launched while an alarm is open
    wait_reason: str | None = None  # why nothing is launched
    hosts: Mapping[str, RunHost] = {}  # the hosts that a provider created for the run
    snapshot: str | None = None  # the snapshot that new hosts are created from
    pending_snapshot: str | None = None  # the snapshot that is being made
    is_finished: bool = False

    @property
    def is_settled(self) -> bool:
        """True when all tasks are settled."""
        return all(task.state == "settled" for task in self.tasks.values())

    def list_in_state(self, *states: str) -> list[TaskState]:
        """Return the tasks in these states, in order of creation."""
        return [task for task in self.tasks.values() if task.state in states]


def replay_rows(rows: Iterable[dict[str, Any]]) -> RunState:
    """Return the state after all rows."""
    return _apply_rows(RunState(), rows)


def apply_row(state: RunState, row: dict[str, Any]) -> RunState:
    """Return the state after one more row."""
    return _apply_rows(state, [row])


def find_task_slug(row: dict[str, Any]) -> str | None:
    """Return the slug of the task that a row is about, or None."""
    return row["task"]["slug"] if row["type"] == "task" else row.get("slug")


def apply_task_row(task: TaskState | None, row: dict[str, Any]) -> TaskState | None:
    """Return the task after one of its rows, or None when no row has introduced it."""
    if row["type"] == "task":
        new_task = Task(**row["task"])
        return TaskState(task=new_task, agent=new_task.data.get("who"), own=row.get("own") or {})
    update = _TASK_UPDATES.get(row["type"])
    return task if task is None or update is None else task.replace(**update(task, row))


def _apply_rows(state: RunState, rows: Iterable[dict[str, Any]]) -> RunState:
    """Return the state after more rows. Its tables are copied once, not for each row."""
    tasks = dict(state.tasks)
    hosts = dict(state.hosts)
    alerts = list(state.alerts)
    new_recipe_rows: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        kind = row["type"]
        if kind == "task" or kind in _TASK_UPDATES:
            slug = find_task_slug(row) or ""
            task = apply_task_row(tasks.get(slug), row)
            if task is not None:
                tasks[slug] = task
                state = state.replace(wait_reason=None) if kind == "launch" else state
        elif kind in host_costs.ROW_TYPES:
            name = str(row["host"])
            host = host_costs.apply_host_row(hosts.get(name), row)
            if host is not None:
                hosts[name] = host
        elif kind in _RUN_UPDATES:
            state = state.replace(**_RUN_UPDATES[kind](row))
            alerts += [_make_alert(row)] if kind in _ALERT_TYPES else []
        else:
            new_recipe_rows.setdefault(kind, []).append(row)
    recipe_rows = dict(state.recipe_rows)
    for kind, new_rows in new_recipe_rows.items():
        recipe_rows[kind] = [*recipe_rows.get(kind, []), *new_rows]
    return state.replace(tasks=tasks, hosts=hosts, alerts=alerts, recipe_rows=recipe_rows)


def _make_alert(row: dict[str, Any]) -> Alert:
    return Alert(at=row["at"], type=row["type"], text=row["text"])


# The changes of a row to the run itself.
_RUN_UPDATES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "alert": lambda row: {"wait_reason": row["waits"]} if "waits" in row else {},
    "alarm": lambda row: {"open_alarm": _make_alert(row)},
    "alarm_over": lambda row: {"open_alarm": None},
    "prepare": lambda row: {"snapshot": None, "pending_snapshot": row["snapshot"]},
    "prepared": lambda row: {"snapshot": row.get("snapshot"), "pending_snapshot": None},
    "unprepared": lambda row: {"snapshot": None, "pending_snapshot": None},
    "ended": lambda row: {"is_finished": row.get("how") == "settled"},
    "resumed": lambda row: {"is_finished": False, "open_alarm": None, "wait_reason": None},
}
_ALERT_TYPES = ("alert", "alarm", "alarm_over")


def _apply_launch(task: TaskState, row: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a `launch` row."""
    return {
        "state": "launching", "agent": row["agent"], "attempt": row["attempt"], "base": row.get("base"), "agent_id": None,
        "is_prompted": False, "reminders": 0, "is_stopped": False, "closed": None, "claim": {}, "check": None,
        "own": task.own if task.agent == row["agent"] == task.task.data.get("who") else {}, "began_at": task.began_at or row["at"],
    }  # fmt: skip


def _apply_pulled(task: TaskState, row: dict[str, Any]) -> dict[str, Any]:
    """Return the changes of a `pulled` row, with the usage since the last pull."""
    changes = {key: row[key] for key in ("commit", "claim", "before_edit") if row.get(key) is not None}
    usage = row.get("usage")
    if usage is not None:
        added = {key: max(0, (usage.get(key) or 0) - (task.own.get(key) or 0)) for key in TOKEN_FIELDS}
        cost = usage.get("cost_usd")
        added["cost_usd"] = None if cost is None else max(0.0, cost - (task.own.get("cost_usd") or 0.0))
        kind = "retries" if task.attempt > 1 else "reminders" if task.reminders else "work"
        kind = task.task.data.get("spend", kind)
        changes["spend"] = {**task.spend, kind: add_usage(task.spend.get(kind, {}), added)}
        changes |= {"own": usage, "usage": add_usage(task.usage, added)}
    return {**changes, "state": "pulling" if row["final"] else "working", "is_stopped": row["final"]}


def add_usage(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two usages. The cost is None when a part of it is unknown."""
    costs = [usage["cost_usd"] for usage in (first, second) if usage]
    tokens: dict[str, Any] = {key: (first.get(key) or 0) + (second.get(key) or 0) for key in TOKEN_FIELDS}
    return {**tokens, "cost_usd": None if None in costs else round(sum(costs), 6)}


_TASK_UPDATES: dict[str, Callable[[TaskState, dict[str, Any]], dict[str, Any]]] = {
    "launch": _apply_launch,
    "launched": lambda task, row: {"agent_id": row["id"], "host": row["host"]},
    "launch_failed": lambda task, row: {"state": "queued", "agent_id": None},
    "busy": lambda task, row: {"state": "queued", "agent_id": None, "attempt": task.attempt - 1},
    "prompted": lambda task, row: {"state": "working", "is_prompted": True},
    "parked": lambda task, row: {
        "state": "parked",
        "reason": row["reason"],
        "parked_until": row.get("until"),
        "is_stopped": bool(row.get("stopped")),
    },
    "unparked": lambda task, row: {
        "state": "working",
        "reason": None,
        "parked_until": None,
        "is_stopped": False,
    },
    "remind": lambda task, row: {"state": "talking", "reminders": row["number"]},
    "reminded": lambda task, row: {"state": "working"},
    "pull": lambda task, row: {"state": "pulling", "closed": row.get("closed")},
    "pull_failed": lambda task, row: {"state": "working"},
    "pulled": _apply_pulled,
    "check": lambda task, row: {"state": "checking"},
    "checked": lambda task, row: {"check": row["check"]},
    "settled": lambda task, row: {
        "state": "settled", "outcome": row["outcome"], "reason": row.get("reason"), "ended_at": row["at"],
    },
    "again": lambda task, row: {
        "state": "queued", "outcome": None, "reason": None, "ended_at": None,
        "task": task.task.replace(
            data={
                **{key: value for key, value in task.task.data.items() if key not in _SINGLE_ATTEMPT_KEYS}, **row.get("data", {})
            }
        ),
    },
    "restored": lambda task, row: {
        "state": "settled", **{key: row[key] for key in ("commit", "claim", "check", "outcome", "reason")}, "ended_at": row["at"],
    },
}  # fmt: skip
