"""How a run stands, from its journal alone: for `tmr status`, and for whoever watches."""

from __future__ import annotations

import time

from mngr import clock
from mngr.mapreduce.journal import find_writer, read_journal
from mngr.mapreduce.state import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.mapreduce.rundir import RunDir
    from mngr.mapreduce.state import TaskState


def status(run: RunDir) -> dict[str, Any]:
    """`tasks`, `clusters`, `alerts`, `budget`, `counts` and how the run goes."""
    rows = read_journal(run.journal)
    state = fold(rows)
    tasks = [_task(one) for one in state.tasks.values()]
    counts: dict[str, int] = {}
    for task in tasks:
        word = task["outcome"] or task["state"]
        counts[word] = counts.get(word, 0) + 1
    skipped = state.facts.get("skip", [])
    return {
        "run": run.name,
        "state": _state(run, rows, state.is_over),
        "tasks": tasks,
        "clusters": [row["cluster"] for row in state.facts.get("cluster", [])],
        "held": [{key: row[key] for key in ("cause", "tests", "why")} for row in state.facts.get("held", [])],
        "skipped": [{"test": row["test"], "why": row["why"]} for row in skipped],
        "alerts": [{"at": row["at"], "type": row["type"], "text": row["text"]} for row in state.alerts],
        "alarm": None if state.open_alarm is None else state.open_alarm["text"],
        "budget": _budget(tasks),
        "counts": counts,
    }


def _state(run: RunDir, rows: list[dict[str, Any]], is_over: bool) -> str:
    if find_writer(run.journal) is not None:
        return "running"
    if is_over:
        return "settled"
    return "parked" if rows and rows[-1]["type"] == "ended" else "interrupted"


def _task(one: TaskState) -> dict[str, Any]:
    began = clock.parse_stamp(one.began_at) if one.began_at else None
    ended = clock.parse_stamp(one.ended_at) if one.ended_at else time.time()
    return {
        "task": one.task.title,
        "slug": one.task.slug,
        "state": one.state,
        "outcome": one.outcome,
        "reason": one.reason,
        "claimed": one.claim.get("outcome"),
        "verdict": (one.check or {}).get("verdict"),
        "cluster": one.task.data.get("cause"),
        "agent": one.agent,
        "host": one.host,
        "commit": one.commit,
        "attempt": one.attempt,
        "reminders": one.reminders,
        "parked_until": one.parked_until,
        "seconds": None if began is None else round(ended - began, 1),
        "usage": one.usage or None,
    }


def _budget(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    used = [task["usage"] for task in tasks if task["usage"]]
    costs = [row["cost_usd"] for row in used]
    return {
        "input_tokens": sum(row["input_tokens"] for row in used),
        "output_tokens": sum(row["output_tokens"] for row in used),
        "cost_usd": None if any(cost is None for cost in costs) else sum(costs),
    }
