"""What a report tells of a run: all of it from the run's folder, where nothing is taken for more than a stranger's word."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from mngr.base import clock
from mngr.base.model import Record
from mngr.mapreduce.journal import read_journal
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_state import TaskState, fold, step
from mngr.tmr.status import status

WORST = (
    "refuted", "failed", "blocked", "flaky", "unverified", "working", "talking", "launching", "pulling", "checking", "parked",
    "queued", "fixed", "improved", "unchanged",
)  # fmt: skip
_LARGEST = 32 << 20  # bytes of a file of ours that is read


class Span(Record):
    """A while in one state; seconds since the epoch."""

    state: str
    begin: float
    end: float


class One(Record):
    """One task."""

    state: TaskState
    row: dict[str, Any]  # as `tmr status` has it
    rows: list[dict[str, Any]]  # of the journal
    spans: list[Span]

    @property
    def slug(self) -> str:
        """Its name in paths."""
        return self.state.task.slug

    @property
    def word(self) -> str:
        """How it ended, or how far it is."""
        return str(self.row["outcome"] or self.row["state"])

    @property
    def test(self) -> str:
        """The test that it is about."""
        return str(self.state.task.data.get("test") or self.state.task.title)

    @property
    def title(self) -> str:
        """What people call it."""
        return self.state.task.title

    @property
    def kinds(self) -> list[str]:
        """Of which kinds its changes say they are."""
        rows = self.state.claim.get("changes")
        found = (
            [str(row.get("kind")) for row in rows if isinstance(row, dict)]
            if isinstance(rows, list | tuple)
            else []
        )
        return sorted(set(found))

    @property
    def check(self) -> dict[str, Any]:
        """The receipt, empty while there is none."""
        return self.state.check or {}

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Everything that was found about its edit."""
        return [row for name in ("policy", "guard", "findings") for row in rows_of(self.check.get(name))]


class Facts(Record):
    """One run."""

    run: RunDir
    plan: dict[str, Any]
    status: dict[str, Any]
    tasks: list[One]
    facts: dict[str, list[dict[str, Any]]]  # rows of the journal that are about no task, by type
    began: float
    until: float  # its end, or now
    changes: Any
    integration: Any

    @property
    def is_live(self) -> bool:
        """Whether there is more to come."""
        return bool(self.status["state"] != "settled")


def load(run: RunDir) -> Facts:
    """All of it; raises MngrError where the journal is damaged."""
    rows = read_journal(run.journal)
    found = status(run)
    state = fold(rows)
    times = [clock.parse_stamp(row["at"]) for row in rows] or [time.time()]
    until = time.time() if found["state"] == "running" else times[-1]
    spans, of = _spans(rows, until)
    by_slug = {row["slug"]: row for row in found["tasks"]}
    tasks = [
        One(state=one, row=by_slug[slug], rows=of.get(slug, []), spans=spans.get(slug, []))
        for slug, one in state.tasks.items()
        if slug in by_slug
    ]
    return Facts(
        run=run, plan=_dict(read_json(run.plan)), status=found, tasks=sorted(tasks, key=_rank), facts=state.facts, began=times[0],
        until=until, changes=read_json(os.path.join(run.path, "changes.json")),
        integration=read_json(os.path.join(run.path, "integration.json")),
    )  # fmt: skip


def _spans(
    rows: list[dict[str, Any]], until: float
) -> tuple[dict[str, list[Span]], dict[str, list[dict[str, Any]]]]:
    """Of each task when it was in which state, and its rows."""
    state = fold([])
    spans: dict[str, list[Span]] = {}
    of: dict[str, list[dict[str, Any]]] = {}
    open_: dict[str, tuple[str, float]] = {}
    for row in rows:
        state = step(state, row)
        slug = row["task"]["slug"] if row["type"] == "task" else row.get("slug")
        if slug not in state.tasks:
            continue
        of.setdefault(slug, []).append(row)
        at, now = clock.parse_stamp(row["at"]), state.tasks[slug].state
        before = open_.get(slug)
        if before is None or before[0] != now:
            if before is not None and before[0] != "settled":
                spans.setdefault(slug, []).append(Span(state=before[0], begin=before[1], end=at))
            open_[slug] = (now, at)
    for slug, (now, at) in open_.items():
        if now != "settled":
            spans.setdefault(slug, []).append(Span(state=now, begin=at, end=max(at, until)))
    return spans, of


def _rank(one: One) -> tuple[int, str]:
    return (WORST.index(one.word) if one.word in WORST else len(WORST), one.title)


def read_json(path: str) -> Any:
    """A file of ours; None where there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return json.loads(file.read(_LARGEST))
    except (OSError, ValueError, RecursionError):
        return None


def rows_of(value: Any) -> list[dict[str, Any]]:
    """The entries of a list that are what they should be."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list | tuple) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
