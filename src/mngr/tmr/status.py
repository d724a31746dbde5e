"""The status of a run, read from its journal, for `tmr status` and the dashboard."""

from __future__ import annotations

import os
import time
from typing import Any

from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.host import registry
from mngr.host.protocol import Host
from mngr.mapreduce import host_costs
from mngr.mapreduce.host_costs import RunHost
from mngr.mapreduce.journal import find_writer, read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import RunState, TaskState, add_usage, replay_rows
from mngr.tmr.changes.conflict_graph import list_overlaps
from mngr.tmr.changes.excluded import list_unrepaired_causes
from mngr.tmr.commits.untrusted import clean_line, is_commit_id
from mngr.tmr.plan import load_plan

_MAX_HEADS = 500  # commits that are compared at most
_PREPARING_TEXT = "a host is being prepared, which all others are made from"


def build_status(run: RunDir, local: Host | None = None) -> dict[str, Any]:
    """Return the status as a dict: `tasks`, `clusters`, `alerts`, `budget`, `counts` and others.

    With a host, it includes the tasks that are `converging` on the same lines.
    """
    rows = read_journal(run.journal)
    state = replay_rows(rows)
    tasks = [_summarize_task(task_state) for task_state in state.tasks.values()]
    counts: dict[str, int] = {}
    for task in tasks:
        label = task["outcome"] or task["state"]
        counts[label] = counts.get(label, 0) + 1
    skipped, question_state = state.recipe_rows.get("skip", []), _load_question_state(run)
    return {
        "run": run.name,
        "state": _decide_state(run, rows, state.is_finished),
        "tasks": tasks,
        "clusters": [row["cluster"] for row in state.recipe_rows.get("cluster", [])],
        "held": list_unrepaired_causes(state),
        "skipped": [{"test": row["test"], "why": row["why"]} for row in skipped],
        "alerts": [alert.to_dict() for alert in state.alerts],
        "alarm": None if state.open_alarm is None else state.open_alarm.text,
        "waits": state.wait_reason or (_PREPARING_TEXT if state.pending_snapshot else None),
        "budget": _summarize_budget(
            tasks,
            [
                _refresh_host(local, *name_and_host)
                for name_and_host in (*state.hosts.items(), *question_state.hosts.items())
            ],
            list(question_state.tasks.values()),
        ),
        "counts": counts,
        **({} if local is None else {"converging": _list_overlapping_work(local, run, state)}),
    }


def _list_overlapping_work(local: Host, run: RunDir, state: RunState) -> list[dict[str, Any]]:
    """Return the places where several agents changed the same lines, by the work collected so far.

    Only tasks with the same base are compared.
    """
    try:
        plan = load_plan(run)
        bases: dict[str, dict[str, str]] = {}
        for slug, task in list(state.tasks.items())[:_MAX_HEADS]:
            base = task.base or plan.base
            if is_commit_id(task.commit) and is_commit_id(base) and task.commit != base:
                bases.setdefault(base, {})[slug] = str(task.commit)
        overlaps: list[dict[str, Any]] = []
        for base, heads in sorted(bases.items()):
            for overlap in list_overlaps(local, run.repo, base, heads):
                overlaps.append({**overlap.to_dict(), "path": clean_line(overlap.path, 1000)})
    except MngrError:  # a run of `mngr map`, or one with too little data yet
        return []
    return sorted(overlaps, key=lambda row: (-len(row["who"]), row["path"], row["first"]))


def _decide_state(run: RunDir, rows: list[dict[str, Any]], is_finished: bool) -> str:
    if find_writer(run.journal) is not None:
        return "running"
    if is_finished:
        return "settled"
    return "parked" if rows and rows[-1]["type"] == "ended" else "interrupted"


def _summarize_task(task: TaskState) -> dict[str, Any]:
    began = clock.parse_timestamp(task.began_at) if task.began_at else None
    ended = clock.parse_timestamp(task.ended_at) if task.ended_at else time.time()
    return {
        "task": task.task.title,
        "slug": task.task.slug,
        "state": task.state,
        "outcome": task.outcome,
        "reason": task.reason,
        "claimed": task.claim.get("outcome"),
        "verdict": (task.check or {}).get("verdict"),
        "findings": [row for name in ("policy", "guard", "findings") for row in (task.check or {}).get(name) or ()],
        "cluster": task.task.data.get("cause"),
        "agent": task.agent,
        "host": task.host,
        "commit": task.commit,
        "attempt": task.attempt,
        "reminders": task.reminders,
        "parked_until": task.parked_until,
        "seconds": None if began is None else round(ended - began, 1),
        "usage": task.usage or None,
        "spend": task.spend,
        "before_edit": task.before_edit,
    }


def _refresh_host(local: Host | None, name: str, host: RunHost) -> RunHost:
    """Return the host, with its billing ended if it was destroyed since the last journal row."""
    home = None if local is None or host.billed_since is None else local.home
    if home is None or registry.find_facts(home, host.provider, name) is not None:
        return host
    if registry.find_facts(home, host.provider, name, "gone") is None:
        return host
    gone_at = time.time() - registry.get_age(home, host.provider, name, "gone")
    return host.stop_billing(clock.format_timestamp(gone_at), "gone")


def _load_question_state(run: RunDir) -> RunState:
    """Return the state of the questions that the run's integration asked agents."""
    return replay_rows(read_journal(os.path.join(run.path, "integrate", "journal.jsonl")))


def _summarize_budget(tasks: list[dict[str, Any]], hosts: list[RunHost], questions: list[TaskState]) -> dict[str, Any]:
    """Return the total usage, the usage by purpose, the cost of the hosts, and the tokens before the first edit.

    The last value is the average over the agents that edited a file.
    """
    total: dict[str, Any] = {}
    spend: dict[str, dict[str, Any]] = {}
    rows = [(task["usage"], task["spend"]) for task in tasks] + [
        (question.usage, question.spend) for question in questions
    ]
    for usage, spend_by_kind in rows:
        total = add_usage(total, usage) if usage else total
        for kind, kind_usage in spend_by_kind.items():
            spend[kind] = add_usage(spend.get(kind, {}), kind_usage)
    before_edit = [task["before_edit"] for task in tasks if task["before_edit"] is not None]
    return {
        **(total or {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}),
        "spend": spend,
        "before_edit": round(sum(before_edit) / len(before_edit)) if before_edit else None,
        "hosts": host_costs.summarize_costs(hosts),
    }
