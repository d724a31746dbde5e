"""What a journal says: the fold of its rows."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.mapreduce import host_costs
from mngr.mapreduce.host_costs import RunHost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

# queued: to be launched. launching: being made, or being told. working. parked: limited by its model. talking: being
# reminded. pulling: its work is being brought home. checking: its claim is being checked. settled.
ACTIVE_STATES = ("launching", "working", "talking", "pulling")  # have an agent that may run
_SINGLE_ATTEMPT_KEYS = (
    "who",
    "branch",
    "spend",
    "tell",
    "answered",
)  # what a task's data say about one time only
TOKEN_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Task(Struct):
    """Something for one agent to do."""

    slug: str
    title: str
    seconds: float = 0.0  # what it is expected to take
    first: int = 0  # higher goes first
    # The recipe's; what the engine knows of it: `agent` and `args` instead of the run's, `who` (an agent that is there and is
    # told instead of a new one), `branch` (on which that one answers, from the task's base), `spend` (what its usage counts as).
    data: dict[str, Any] = {}


class TaskState(Struct):
    """A task and how far it is."""

    task: Task
    state: str = "queued"
    agent: str | None = None
    agent_id: str | None = None
    host: str | None = None
    attempt: int = 0  # how often it was launched
    base: str | None = None  # commit that it started from
    is_prompted: bool = False
    reminders: int = 0
    commit: str | None = None
    claim: dict[str, Any] = {}  # what the recipe read of what came home
    check: dict[str, Any] | None = None  # what the recipe saw itself
    outcome: str | None = None
    reason: str | None = None
    parked_until: str | None = None
    usage: dict[str, Any] = {}  # of all its agents
    own: dict[str, Any] = {}  # of the one it has now
    spend: dict[str, dict[str, Any]] = {}  # the same as `usage`, for work, retries and reminders apart
    before_edit: int | None = None  # tokens that its agent used before it changed a file
    began_at: str | None = None
    ended_at: str | None = None
    is_stopped: bool = False
    closed: str | None = None  # why its work was brought home though it had not said that it was done


class RunState(Struct):
    """A run and all of its tasks."""

    tasks: dict[str, TaskState] = {}
    recipe_rows: dict[str, list[dict[str, Any]]] = {}  # rows of the recipe's own, by type
    alerts: list[dict[str, Any]] = []
    open_alarm: dict[str, Any] | None = None  # no launches while there is one
    wait_reason: str | None = None  # why nothing is launched
    hosts: dict[str, RunHost] = {}  # that a provider made for it
    snapshot: str | None = None  # which new hosts are made from
    pending_snapshot: str | None = None  # the snapshot that is to be
    is_finished: bool = False

    def list_in_state(self, *states: str) -> list[TaskState]:
        """The tasks in these states, in the order they were made."""
        return [one for one in self.tasks.values() if one.state in states]


def replay_rows(rows: Iterable[dict[str, Any]]) -> RunState:
    """The state that rows lead to."""
    state = RunState(tasks={}, recipe_rows={}, alerts=[], hosts={})
    for row in rows:
        state = apply_row(state, row)
    return state


def apply_row(state: RunState, row: dict[str, Any]) -> RunState:
    """The state after one more row. (Its tables are added to in place: a state that was handed out moves on too.)"""
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
        made = row.get("snapshot") if kind == "prepared" else None
        return state.replace(snapshot=made, pending_snapshot=row["snapshot"] if kind == "prepare" else None)
    elif kind in ("alarm", "alarm_over"):
        state.alerts.append(row)
        return state.replace(open_alarm=row if kind == "alarm" else None)
    elif kind in ("ended", "resumed"):
        alarm = state.open_alarm if kind == "ended" else None  # who resumes has looked at it
        waits = state.wait_reason if kind == "ended" else None
        return state.replace(
            is_finished=kind == "ended" and row.get("how") == "settled", open_alarm=alarm, wait_reason=waits
        )
    elif kind not in _TASK_UPDATES:
        state.recipe_rows.setdefault(kind, []).append(row)
    return state


def _apply_launch(one: TaskState, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "state": "launching", "agent": row["agent"], "attempt": row["attempt"], "base": row.get("base"), "agent_id": None,
        "is_prompted": False, "reminders": 0, "is_stopped": False, "closed": None, "claim": {}, "check": None,
        "own": one.own if one.agent == row["agent"] == one.task.data.get("who") else {}, "began_at": one.began_at or row["at"],
    }  # fmt: skip


def _apply_pulled(one: TaskState, row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: row[key] for key in ("commit", "claim", "before_edit") if row.get(key) is not None}
    used = row.get("usage")
    if used is not None:
        more = {key: max(0, (used.get(key) or 0) - (one.own.get(key) or 0)) for key in TOKEN_FIELDS}
        cost = used.get("cost_usd")
        more["cost_usd"] = None if cost is None else max(0.0, cost - (one.own.get("cost_usd") or 0.0))
        kind = "retries" if one.attempt > 1 else "reminders" if one.reminders else "work"
        kind = one.task.data.get("spend", kind)
        kept["spend"] = {**one.spend, kind: add_usage(one.spend.get(kind, {}), more)}
        kept |= {"own": used, "usage": add_usage(one.usage, more)}
    return {**kept, "state": "pulling" if row["final"] else "working", "is_stopped": row["final"]}


def add_usage(one: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Both together; money is None where a part of it is not known."""
    costs = [used["cost_usd"] for used in (one, more) if used]
    found: dict[str, Any] = {key: (one.get(key) or 0) + (more.get(key) or 0) for key in TOKEN_FIELDS}
    return {**found, "cost_usd": None if None in costs else round(sum(costs), 6)}


_TASK_UPDATES: dict[str, Callable[[TaskState, dict[str, Any]], dict[str, Any]]] = {
    "launch": _apply_launch,
    "launched": lambda one, row: {"agent_id": row["id"], "host": row["host"]},
    "launch_failed": lambda one, row: {"state": "queued", "agent_id": None},
    "busy": lambda one, row: {"state": "queued", "agent_id": None, "attempt": one.attempt - 1},
    "prompted": lambda one, row: {"state": "working", "is_prompted": True},
    "parked": lambda one, row: {
        "state": "parked",
        "reason": row["reason"],
        "parked_until": row.get("until"),
        "is_stopped": bool(row.get("stopped")),
    },
    "unparked": lambda one, row: {
        "state": "working",
        "reason": None,
        "parked_until": None,
        "is_stopped": False,
    },
    "remind": lambda one, row: {"state": "talking", "reminders": row["number"]},
    "reminded": lambda one, row: {"state": "working"},
    "pull": lambda one, row: {"state": "pulling", "closed": row.get("closed")},
    "pull_failed": lambda one, row: {"state": "working"},
    "pulled": _apply_pulled,
    "check": lambda one, row: {"state": "checking"},
    "checked": lambda one, row: {"check": row["check"]},
    "settled": lambda one, row: {
        "state": "settled", "outcome": row["outcome"], "reason": row.get("reason"), "ended_at": row["at"],
    },
    "again": lambda one, row: {
        "state": "queued", "outcome": None, "reason": None, "ended_at": None,
        "task": one.task.replace(
            data={
                **{key: value for key, value in one.task.data.items() if key not in _SINGLE_ATTEMPT_KEYS}, **row.get("data", {})
            }
        ),
    },
    "restored": lambda one, row: {
        "state": "settled", **{key: row[key] for key in ("commit", "claim", "check", "outcome", "reason")}, "ended_at": row["at"],
    },
}  # fmt: skip
