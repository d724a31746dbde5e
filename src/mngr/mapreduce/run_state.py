"""The state of a run, computed from the rows of its journal."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.mapreduce import host_costs
from mngr.mapreduce.host_costs import RunHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
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
    data: dict[str, Any] = {}


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
    check: dict[str, Any] | None = None  # the result of the recipe's own check
    outcome: str | None = None
    reason: str | None = None
    parked_until: str | None = None
    usage: dict[str, Any] = {}  # what all its agents have used
    own: dict[str, Any] = {}  # what its present agent has used
    spend: dict[str, dict[str, Any]] = {}  # `usage` split into work, retries and reminders
    before_edit: int | None = None  # tokens that its agent used before it first changed a file
    began_at: str | None = None
    ended_at: str | None = None
    is_stopped: bool = False
    closed: str | None = None  # why its work was pulled although the agent had not finished


class RunState(Struct):
    """A run and all of its tasks."""

    tasks: dict[str, TaskState] = {}
    recipe_rows: dict[str, list[dict[str, Any]]] = {}  # the recipe's own rows, by type
    alerts: list[dict[str, Any]] = []
    open_alarm: dict[str, Any] | None = None  # nothing is launched while an alarm is open
    wait_reason: str | None = None  # why nothing is launched
    hosts: dict[str, RunHost] = {}  # the hosts that a provider created for the run
    snapshot: str | None = None  # the snapshot that new hosts are created from
    pending_snapshot: str | None = None  # the snapshot that is being made
    is_finished: bool = False

    def list_in_state(self, *states: str) -> list[TaskState]:
        """Return the tasks in these states, in order of creation."""
        return [task for task in self.tasks.values() if task.state in states]


def replay_rows(rows: Iterable[dict[str, Any]]) -> RunState:
    """Return the state after all rows."""
    state = RunState(tasks={}, recipe_rows={}, alerts=[], hosts={})
    for row in rows:
        state = apply_row(state, row)
    return state


def apply_row(state: RunState, row: dict[str, Any]) -> RunState:
    """Return the state after one more row. The tables of the given state are updated in place."""
    kind, slug = row["type"], row.get("slug")
    if kind == "task":
        task = Task(**row["task"])
        state.tasks[task.slug] = TaskState(task=task, agent=task.data.get("who"), own=row.get("own") or {})
    elif kind in _TASK_UPDATES and slug in state.tasks:
        state.tasks[slug] = state.tasks[slug].replace(**_TASK_UPDATES[kind](state.tasks[slug], row))
        if kind == "launch" and state.wait_reason is not None:
            return state.replace(wait_reason=None)
    elif kind == "alert":
        state.alerts.append(row)
        return state.replace(wait_reason=row["waits"]) if "waits" in row else state
    elif kind in host_costs.ROW_TYPES:
        host_costs.apply_host_row(state.hosts, row)
    elif kind in ("prepare", "prepared", "unprepared"):
        snapshot = row.get("snapshot") if kind == "prepared" else None
        return state.replace(snapshot=snapshot, pending_snapshot=row["snapshot"] if kind == "prepare" else None)
    elif kind in ("alarm", "alarm_over"):
        state.alerts.append(row)
        return state.replace(open_alarm=row if kind == "alarm" else None)
    elif kind in ("ended", "resumed"):
        alarm = state.open_alarm if kind == "ended" else None  # resuming a run closes its alarm
        wait_reason = state.wait_reason if kind == "ended" else None
        return state.replace(
            is_finished=kind == "ended" and row.get("how") == "settled", open_alarm=alarm, wait_reason=wait_reason
        )
    elif kind not in _TASK_UPDATES:
        state.recipe_rows.setdefault(kind, []).append(row)
    return state


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


def add_usage(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
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
