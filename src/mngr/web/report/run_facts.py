"""What a report tells of a run: all of it from the run's folder, where nothing is taken for more than a stranger's word."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from mngr.base import clock
from mngr.base.model import Struct
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, apply_row, replay_rows
from mngr.tmr.status import build_status

WORST_FIRST = (
    "refuted", "failed", "blocked", "flaky", "unverified", "working", "talking", "launching", "pulling", "checking", "parked",
    "queued", "fixed", "improved", "unchanged",
)  # fmt: skip
_MAX_FILE_BYTES = 32 << 20  # bytes of a file of ours that is read


class StateSpan(Struct):
    """A while in one state; seconds since the epoch."""

    state: str
    begin: float
    end: float


class ReportTask(Struct):
    """One task."""

    state: TaskState
    status_row: dict[str, Any]  # as `tmr status` has it
    journal_rows: list[dict[str, Any]]  # of the journal
    spans: list[StateSpan]

    @property
    def slug(self) -> str:
        """Its name in paths."""
        return self.state.task.slug

    @property
    def outcome(self) -> str:
        """How it ended, or how far it is."""
        return str(self.status_row["outcome"] or self.status_row["state"])

    @property
    def test(self) -> str:
        """The test that it is about."""
        return str(self.state.task.data.get("test") or self.state.task.title)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.state.task.title

    @property
    def change_kinds(self) -> list[str]:
        """Of which kinds its changes say they are."""
        rows = self.state.claim.get("changes")
        found = (
            [str(row.get("kind")) for row in rows if isinstance(row, dict)] if isinstance(rows, list | tuple) else []
        )
        return sorted(set(found))

    @property
    def receipt(self) -> dict[str, Any]:
        """The receipt, empty while there is none."""
        return self.state.check or {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Everything that was found about its edit."""
        return [row for name in ("policy", "guard", "findings") for row in list_dicts(self.receipt.get(name))]


class ReportFacts(Struct):
    """One run."""

    run: RunDir
    plan: dict[str, Any]
    status: dict[str, Any]
    tasks: list[ReportTask]
    rows_by_type: dict[str, list[dict[str, Any]]]  # rows of the journal that are about no task, by type
    started_at: float
    ended_at: float  # its end, or now
    changes: Any
    integration: Any

    @property
    def is_live(self) -> bool:
        """Whether there is more to come."""
        return bool(self.status["state"] != "settled")


def load_facts(run: RunDir) -> ReportFacts:
    """All of it; raises MngrError where the journal is damaged."""
    rows = read_journal(run.journal)
    found = build_status(run)
    state = replay_rows(rows)
    times = [clock.parse_timestamp(row["at"]) for row in rows] or [time.time()]
    until = time.time() if found["state"] == "running" else times[-1]
    spans, of = _build_spans(rows, until)
    by_slug = {row["slug"]: row for row in found["tasks"]}
    tasks = [
        ReportTask(state=one, status_row=by_slug[slug], journal_rows=of.get(slug, []), spans=spans.get(slug, []))
        for slug, one in state.tasks.items()
        if slug in by_slug
    ]
    return ReportFacts(
        run=run, plan=_dict_or_empty(read_json(run.plan)), status=found, tasks=sorted(tasks, key=_rank_task), rows_by_type=state.recipe_rows, started_at=times[0],
        ended_at=until, changes=read_json(os.path.join(run.path, "changes.json")),
        integration=read_json(os.path.join(run.path, "integration.json")),
    )  # fmt: skip


def _build_spans(
    rows: list[dict[str, Any]], until: float
) -> tuple[dict[str, list[StateSpan]], dict[str, list[dict[str, Any]]]]:
    """Of each task when it was in which state, and its rows."""
    state = replay_rows([])
    spans: dict[str, list[StateSpan]] = {}
    of: dict[str, list[dict[str, Any]]] = {}
    open_: dict[str, tuple[str, float]] = {}
    for row in rows:
        state = apply_row(state, row)
        slug = row["task"]["slug"] if row["type"] == "task" else row.get("slug")
        if slug not in state.tasks:
            continue
        of.setdefault(slug, []).append(row)
        at, now = clock.parse_timestamp(row["at"]), state.tasks[slug].state
        before = open_.get(slug)
        if before is None or before[0] != now:
            if before is not None and before[0] != "settled":
                spans.setdefault(slug, []).append(StateSpan(state=before[0], begin=before[1], end=at))
            open_[slug] = (now, at)
    for slug, (now, at) in open_.items():
        if now != "settled":
            spans.setdefault(slug, []).append(StateSpan(state=now, begin=at, end=max(at, until)))
    return spans, of


def _rank_task(one: ReportTask) -> tuple[int, str]:
    return (WORST_FIRST.index(one.outcome) if one.outcome in WORST_FIRST else len(WORST_FIRST), one.title)


def read_json(path: str) -> Any:
    """A file of ours; None where there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return json.loads(file.read(_MAX_FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None


def list_dicts(value: Any) -> list[dict[str, Any]]:
    """The entries of a list that are what they should be."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list | tuple) else []


def _dict_or_empty(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
