"""How a run stands, from its journal alone: for `tmr status`, and for whoever watches."""

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

_MAX_HEADS = 500  # commits that are compared
_PREPARING_TEXT = "a host is being prepared, which all others are made from"


def build_status(run: RunDir, local: Host | None = None) -> dict[str, Any]:
    """`tasks`, `clusters`, `alerts`, `budget`, `counts` and how the run goes; with a host also who is `converging`."""
    rows = read_journal(run.journal)
    state = replay_rows(rows)
    tasks = [_summarize_task(one) for one in state.tasks.values()]
    counts: dict[str, int] = {}
    for task in tasks:
        word = task["outcome"] or task["state"]
        counts[word] = counts.get(word, 0) + 1
    skipped, asked = state.recipe_rows.get("skip", []), _load_question_state(run)
    return {
        "run": run.name,
        "state": _decide_state(run, rows, state.is_finished),
        "tasks": tasks,
        "clusters": [row["cluster"] for row in state.recipe_rows.get("cluster", [])],
        "held": list_unrepaired_causes(state),
        "skipped": [{"test": row["test"], "why": row["why"]} for row in skipped],
        "alerts": [{"at": row["at"], "type": row["type"], "text": row["text"]} for row in state.alerts],
        "alarm": None if state.open_alarm is None else state.open_alarm["text"],
        "waits": state.wait_reason or (_PREPARING_TEXT if state.pending_snapshot else None),
        "budget": _summarize_budget(
            tasks,
            [_refresh_host(local, *one) for one in (*state.hosts.items(), *asked.hosts.items())],
            list(asked.tasks.values()),
        ),
        "counts": counts,
        **({} if local is None else {"converging": _list_overlapping_work(local, run, state)}),
    }


def _list_overlapping_work(local: Host, run: RunDir, state: RunState) -> list[dict[str, Any]]:
    """Where several agents work on the same lines, by what was brought home so far; those of one base are compared."""
    try:
        plan = load_plan(run)
        bases: dict[str, dict[str, str]] = {}
        for slug, one in list(state.tasks.items())[:_MAX_HEADS]:
            base = one.base or plan.base
            if is_commit_id(one.commit) and is_commit_id(base) and one.commit != base:
                bases.setdefault(base, {})[slug] = str(one.commit)
        found: list[dict[str, Any]] = []
        for base, heads in sorted(bases.items()):
            for meeting in list_overlaps(local, run.repo, base, heads):
                found.append({**meeting.to_dict(), "path": clean_line(meeting.path, 1000)})
    except MngrError:  # a run of map, or of which too little is there
        return []
    return sorted(found, key=lambda row: (-len(row["who"]), row["path"], row["first"]))


def _decide_state(run: RunDir, rows: list[dict[str, Any]], is_over: bool) -> str:
    if find_writer(run.journal) is not None:
        return "running"
    if is_over:
        return "settled"
    return "parked" if rows and rows[-1]["type"] == "ended" else "interrupted"


def _summarize_task(one: TaskState) -> dict[str, Any]:
    began = clock.parse_timestamp(one.began_at) if one.began_at else None
    ended = clock.parse_timestamp(one.ended_at) if one.ended_at else time.time()
    return {
        "task": one.task.title,
        "slug": one.task.slug,
        "state": one.state,
        "outcome": one.outcome,
        "reason": one.reason,
        "claimed": one.claim.get("outcome"),
        "verdict": (one.check or {}).get("verdict"),
        "findings": [row for name in ("policy", "guard", "findings") for row in (one.check or {}).get(name) or ()],
        "cluster": one.task.data.get("cause"),
        "agent": one.agent,
        "host": one.host,
        "commit": one.commit,
        "attempt": one.attempt,
        "reminders": one.reminders,
        "parked_until": one.parked_until,
        "seconds": None if began is None else round(ended - began, 1),
        "usage": one.usage or None,
        "spend": one.spend,
        "before_edit": one.before_edit,
    }


def _refresh_host(local: Host | None, name: str, host: RunHost) -> RunHost:
    """A host that somebody destroyed since costs nothing any more."""
    home = None if local is None or host.billed_since is None else local.home
    if home is None or registry.find_facts(home, host.provider, name) is not None:
        return host
    if registry.find_facts(home, host.provider, name, "gone") is None:
        return host
    gone = time.time() - registry.get_age(home, host.provider, name, "gone")
    return host.stop_billing(clock.format_timestamp(gone), "gone")


def _load_question_state(run: RunDir) -> RunState:
    """What agents were asked when the run was integrated."""
    return replay_rows(read_journal(os.path.join(run.path, "integrate", "journal.jsonl")))


def _summarize_budget(tasks: list[dict[str, Any]], hosts: list[RunHost], asked: list[TaskState]) -> dict[str, Any]:
    """What was used in all, and what for; tokens before the first edit, of those that made one; what hosts cost."""
    total: dict[str, Any] = {}
    spend: dict[str, dict[str, Any]] = {}
    rows = [(task["usage"], task["spend"]) for task in tasks] + [(one.usage, one.spend) for one in asked]
    for usage, kinds in rows:
        total = add_usage(total, usage) if usage else total
        for kind, used in kinds.items():
            spend[kind] = add_usage(spend.get(kind, {}), used)
    before = [task["before_edit"] for task in tasks if task["before_edit"] is not None]
    return {
        **(total or {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}),
        "spend": spend,
        "before_edit": round(sum(before) / len(before)) if before else None,
        "hosts": host_costs.summarize_costs(hosts),
    }
