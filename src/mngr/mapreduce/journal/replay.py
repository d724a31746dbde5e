"""Computes the state of a run from the rows of its journal."""

from __future__ import annotations

from collections.abc import Iterable

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
from mngr.mapreduce.journal.run_state import Alert, JournalRow, RecipeRow, RunState, TaskState


def replay_rows(rows: Iterable[JournalRow]) -> RunState:
    """Return the state after all rows."""
    return _apply_rows(RunState(), rows)


def apply_row(state: RunState, row: JournalRow) -> RunState:
    """Return the state after one more row."""
    return _apply_rows(state, [row])


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


def _apply_rows(state: RunState, rows: Iterable[JournalRow]) -> RunState:
    """Return the state after more rows. Its tables are copied once, not for each row."""
    tasks, hosts, alerts = dict(state.tasks), dict(state.hosts), list(state.alerts)
    new_recipe_rows: dict[str, list[RecipeRow]] = {}
    for row in rows:
        slug = find_task_slug(row)
        task = apply_task_row(tasks.get(slug or ""), row)
        if slug is not None and task is not None:
            tasks[slug] = task
        if isinstance(row, NewHostRow):
            hosts[row.host] = row.build()
        elif isinstance(row, HostRow) and row.host in hosts:
            hosts[row.host] = row.apply(hosts[row.host])
        elif isinstance(row, RecipeRow):
            new_recipe_rows.setdefault(row.type, []).append(row)
        elif isinstance(row, MessageRow):
            alerts.append(_make_alert(row))
        is_launch = isinstance(row, LaunchRow) and task is not None
        state = state.replace(wait_reason=None) if is_launch else _apply_run_row(state, row)
    recipe_rows = dict(state.recipe_rows)
    for kind, new_rows in new_recipe_rows.items():
        recipe_rows[kind] = [*recipe_rows.get(kind, []), *new_rows]
    return state.replace(tasks=tasks, hosts=hosts, alerts=alerts, recipe_rows=recipe_rows)


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
