"""Computes the state of a run from the rows of its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from mngr.base.python_process import pause_python_gc
from mngr.mapreduce.journal.host_rows import HostRow, NewHostRow
from mngr.mapreduce.journal.journal_rows import LaunchRow, NewTaskRow, TaskRow
from mngr.mapreduce.journal.run_rows import (
    AlarmOverRow,
    AlarmRow,
    AlertRow,
    EndedRow,
    MessageRow,
    PreparedRow,
    PrepareRow,
    ResumedRow,
    UnpreparedRow,
)
from mngr.mapreduce.journal.run_state import Alert, JournalRow, RecipeRow, RunState, TaskState


class _TaskDraft(TaskState):
    """A task that changes in place. Copying it for each of its rows would take most of the time of a replay."""

    def replace(self, **changes: Any) -> Self:
        """Change some fields, and return the same task."""
        self.__dict__.update(changes)
        return self


class Replay:
    """Applies the rows of a journal to `state`, one after the other. `state` is the same object all the time."""

    def __init__(self, rows: Iterable[JournalRow] = ()) -> None:
        self.state = RunState()
        drafts: dict[str, TaskState] = {}  # faster than a table, which updates its counts with every row
        for row in rows:
            task = self._apply_except_to_tasks(row, drafts)
            if task is not None and type(task) is TaskState:
                drafts[task.task.slug] = _TaskDraft.from_fields(task.__dict__)
        for draft in drafts.values():
            self.state.tasks.put(TaskState.from_fields(draft.__dict__))

    def add(self, row: JournalRow) -> None:
        """Apply one more row."""
        task = self._apply_except_to_tasks(row, self.state.tasks)
        if task is not None:
            self.state.tasks.put(task)

    def _apply_except_to_tasks(self, row: JournalRow, tasks: Mapping[str, TaskState]) -> TaskState | None:
        """Apply a row to everything except the tasks. Return the row's task after the row, if it is about one."""
        slug = find_task_slug(row)
        if slug is None:
            if isinstance(row, MessageRow):
                self.state.alerts.append(_make_alert(row))
            _apply_run_row(self.state, row)
            return None
        task = apply_task_row(tasks.get(slug), row)
        if task is not None and isinstance(row, LaunchRow):
            self.state.wait_reason = None
        return task


def replay_rows(rows: Iterable[JournalRow]) -> RunState:
    """Return the state after all rows."""
    with pause_python_gc.pause():
        return Replay(rows).state


def find_task_slug(row: JournalRow) -> str | None:
    """Return the slug of the task that a row is about, or None."""
    if isinstance(row, NewTaskRow):
        return row.task.slug
    return row.slug if isinstance(row, TaskRow) else None


def apply_task_row(task: TaskState | None, row: JournalRow) -> TaskState | None:
    """Return the task after a row, or None when no row has introduced it."""
    if isinstance(row, NewTaskRow):
        return TaskState(task=row.task, agent=row.task.existing_agent, agent_usage=row.agent_usage)
    return row.apply(task) if task is not None and isinstance(row, TaskRow) else task


def _apply_run_row(state: RunState, row: JournalRow) -> None:
    """Change the state by what a row says about the run itself or about one of its hosts."""
    match row:
        case NewHostRow():
            state.hosts.put(row.host, row.build())
        case HostRow() if row.host in state.hosts:
            state.hosts.put(row.host, row.apply(state.hosts[row.host]))
        case RecipeRow():
            state.recipe_rows.setdefault(row.type, []).append(row)
        case AlertRow(wait_reason=str(reason)):
            state.wait_reason = reason
        case AlarmRow():
            state.open_alarm = _make_alert(row)
        case AlarmOverRow():
            state.open_alarm = None
        case PrepareRow():
            state.snapshot, state.pending_snapshot = None, row.snapshot
        case PreparedRow():
            state.snapshot, state.pending_snapshot = row.snapshot, None
        case UnpreparedRow():
            state.snapshot = state.pending_snapshot = None
        case EndedRow():
            state.is_finished = row.outcome == "settled"
        case ResumedRow():
            state.is_finished = False
            state.open_alarm = state.wait_reason = None


def _make_alert(row: MessageRow) -> Alert:
    return Alert(at=row.at, type=row.type_name, text=row.text)
