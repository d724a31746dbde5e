"""Computes the state of a run from the rows of its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mngr.base import garbage_collection
from mngr.mapreduce.journal.host_costs import HostTable
from mngr.mapreduce.journal.host_rows import HostRow, NewHostRow
from mngr.mapreduce.journal.journal_rows import (
    AlarmOverRow,
    AlarmRow,
    AlertRow,
    EndedRow,
    LaunchRow,
    MessageRow,
    NewTaskRow,
    PreparedRow,
    PrepareRow,
    ResumedRow,
    TaskRow,
    UnpreparedRow,
)
from mngr.mapreduce.journal.run_state import Alert, JournalRow, RecipeRow, RunState, TaskState, TaskTable


class Replay:
    """The state of a run, which grows with each row of the journal."""

    def __init__(self, rows: Iterable[JournalRow] = ()) -> None:
        self._hosts = HostTable()
        self._alerts: list[Alert] = []
        self._recipe_rows: dict[str, list[RecipeRow]] = {}
        self.state = RunState(hosts=self._hosts, alerts=self._alerts, recipe_rows=self._recipe_rows)
        tasks: dict[str, TaskState] = {}  # faster than a table, which updates its counts with every row
        for row in rows:
            task = self._apply(row, tasks)
            if task is not None:
                tasks[task.task.slug] = task
        self._tasks = TaskTable(tasks.values())
        self.state = self.state.replace(tasks=self._tasks)

    def add(self, row: JournalRow) -> None:
        """Apply one more row."""
        task = self._apply(row, self._tasks)
        if task is not None:
            self._tasks.put(task)

    def _apply(self, row: JournalRow, tasks: Mapping[str, TaskState]) -> TaskState | None:
        """Apply a row to everything except the tasks. Return the row's task after the row, if it is about one."""
        slug = find_task_slug(row)
        if slug is not None:
            task = apply_task_row(tasks.get(slug), row)
            if task is not None and self.state.wait_reason is not None and isinstance(row, LaunchRow):
                self.state = self.state.replace(wait_reason=None)
            return task
        if isinstance(row, NewHostRow):
            self._hosts.put(row.host, row.build())
        elif isinstance(row, HostRow) and row.host in self._hosts:
            self._hosts.put(row.host, row.apply(self._hosts[row.host]))
        elif isinstance(row, RecipeRow):
            self._recipe_rows.setdefault(row.type, []).append(row)
        elif isinstance(row, MessageRow):
            self._alerts.append(_make_alert(row))
        self.state = _apply_run_row(self.state, row)
        return None


def replay_rows(rows: Iterable[JournalRow]) -> RunState:
    """Return the state after all rows."""
    with garbage_collection.pause():
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


def _apply_run_row(state: RunState, row: JournalRow) -> RunState:
    """Return the state with what a row says about the run itself."""
    match row:
        case AlertRow(waits=str(reason)):
            return state.replace(wait_reason=reason)
        case AlarmRow():
            return state.replace(open_alarm=_make_alert(row))
        case AlarmOverRow():
            return state.replace(open_alarm=None)
        case PrepareRow():
            return state.replace(snapshot=None, pending_snapshot=row.snapshot)
        case PreparedRow():
            return state.replace(snapshot=row.snapshot, pending_snapshot=None)
        case UnpreparedRow():
            return state.replace(snapshot=None, pending_snapshot=None)
        case EndedRow():
            return state.replace(is_finished=row.how == "settled")
        case ResumedRow():
            return state.replace(is_finished=False, open_alarm=None, wait_reason=None)
    return state


def _make_alert(row: MessageRow) -> Alert:
    return Alert(at=row.at, type=row.type_name, text=row.text)
