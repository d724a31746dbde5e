"""Loads the facts for a report from the folder of a run. Agents wrote parts of it, so nothing is trusted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from mngr.base import clock
from mngr.base.model import Struct
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, apply_task_row, find_task_slug, replay_rows
from mngr.tmr.status import build_status

WORST_FIRST = (
    "refuted", "failed", "blocked", "flaky", "unverified", "working", "talking", "launching", "pulling", "checking", "parked",
    "queued", "fixed", "improved", "unchanged",
)  # fmt: skip
_MAX_FILE_BYTES = 32 << 20  # The most bytes to read of one file.


class StateSpan(Struct):
    """A period in one state, in seconds since the epoch."""

    state: str
    begin: float
    end: float


class ReportTask(Struct):
    """One task of the run."""

    state: TaskState
    status_row: dict[str, Any]  # The row of `mngr tmr status`.
    journal_rows: list[dict[str, Any]]  # The task's rows of the journal.
    spans: list[StateSpan]

    @property
    def slug(self) -> str:
        """The name of the task in paths."""
        return self.state.task.slug

    @property
    def outcome(self) -> str:
        """The outcome of the task, or its state if it has not ended."""
        return str(self.status_row["outcome"] or self.status_row["state"])

    @property
    def test(self) -> str:
        """The test of the task."""
        return str(self.state.task.data.get("test") or self.state.task.title)

    @property
    def title(self) -> str:
        """The title of the task."""
        return self.state.task.title

    @property
    def change_kinds(self) -> list[str]:
        """The kinds of changes that the agent claims."""
        rows = self.state.claim.get("changes")
        kinds = (
            [str(row.get("kind")) for row in rows if isinstance(row, dict)] if isinstance(rows, list | tuple) else []
        )
        return sorted(set(kinds))

    @property
    def receipt(self) -> Mapping[str, Any]:
        """The receipt, or an empty dictionary if there is none yet."""
        return self.state.check or {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """All findings on the task's edit."""
        return [row for name in ("policy", "guard", "findings") for row in list_dicts(self.receipt.get(name))]


class ReportFacts(Struct):
    """One run."""

    run: RunDir
    plan: dict[str, Any]
    status: dict[str, Any]
    tasks: list[ReportTask]
    rows_by_type: Mapping[str, Sequence[dict[str, Any]]]  # Journal rows that belong to no task, by type.
    started_at: float
    ended_at: float  # The end of the run, or now.
    changes: Any
    integration: Any

    @property
    def is_live(self) -> bool:
        """True when the run is not settled."""
        return bool(self.status["state"] != "settled")


def load_facts(run: RunDir) -> ReportFacts:
    """Return the facts of a run; raise MngrError if the journal is damaged."""
    rows = read_journal(run.journal)
    status = build_status(run)
    state = replay_rows(rows)
    times = [clock.parse_timestamp(row["at"]) for row in rows] or [time.time()]
    end_time = time.time() if status["state"] == "running" else times[-1]
    spans, rows_by_slug = _build_spans(rows, end_time)
    status_by_slug = {row["slug"]: row for row in status["tasks"]}
    tasks = [
        ReportTask(
            state=task_state,
            status_row=status_by_slug[slug],
            journal_rows=rows_by_slug.get(slug, []),
            spans=spans.get(slug, []),
        )
        for slug, task_state in state.tasks.items()
        if slug in status_by_slug
    ]
    return ReportFacts(
        run=run, plan=_dict_or_empty(read_json(run.plan)), status=status, tasks=sorted(tasks, key=_rank_task), rows_by_type=state.recipe_rows, started_at=times[0],
        ended_at=end_time, changes=read_json(os.path.join(run.path, "changes.json")),
        integration=read_json(os.path.join(run.path, "integration.json")),
    )  # fmt: skip


def _build_spans(
    rows: list[dict[str, Any]], end_time: float
) -> tuple[dict[str, list[StateSpan]], dict[str, list[dict[str, Any]]]]:
    """Return for each task the periods in each state, and its journal rows."""
    tasks: dict[str, TaskState] = {}
    spans: dict[str, list[StateSpan]] = {}
    rows_by_slug: dict[str, list[dict[str, Any]]] = {}
    open_spans: dict[str, tuple[str, float]] = {}
    for row in rows:
        slug = find_task_slug(row)
        task = apply_task_row(tasks.get(slug or ""), row)
        if slug is None or task is None:
            continue
        tasks[slug] = task
        rows_by_slug.setdefault(slug, []).append(row)
        timestamp, current = clock.parse_timestamp(row["at"]), task.state
        previous = open_spans.get(slug)
        if previous is None or previous[0] != current:
            if previous is not None and previous[0] != "settled":
                spans.setdefault(slug, []).append(StateSpan(state=previous[0], begin=previous[1], end=timestamp))
            open_spans[slug] = (current, timestamp)
    for slug, (current, timestamp) in open_spans.items():
        if current != "settled":
            spans.setdefault(slug, []).append(StateSpan(state=current, begin=timestamp, end=max(timestamp, end_time)))
    return spans, rows_by_slug


def _rank_task(task: ReportTask) -> tuple[int, str]:
    return (WORST_FIRST.index(task.outcome) if task.outcome in WORST_FIRST else len(WORST_FIRST), task.title)


def read_json(path: str) -> Any:
    """Return the content of a JSON file, or None if it is missing or damaged."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return json.loads(file.read(_MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def list_dicts(value: Any) -> list[dict[str, Any]]:
    """Return the entries of a list that are dictionaries; nothing if the value is no list."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list | tuple) else []


def _dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
