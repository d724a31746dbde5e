"""Lists the tasks that are excluded and why, and the questions that agents raise for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.tmr.commits import untrusted
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import remove_volatile_parts


class ExcludedTask(Struct):
    """A task whose work is excluded, with the reason."""

    task: str
    title: str
    agent: str
    outcome: str
    verdict: str | None
    reason: str
    cause: str  # groups tasks that are excluded for the same reason
    commit: str | None
    findings: list[dict[str, Any]] = []
    escalations: list[dict[str, Any]] = []


def group_by_reason(excluded: Sequence[ExcludedTask]) -> list[dict[str, Any]]:
    """Return the excluded tasks grouped by common reason, the most frequent first."""
    groups: dict[str, list[ExcludedTask]] = {}
    for task in excluded:
        groups.setdefault(task.cause, []).append(task)
    rows = [
        {"cause": reason, "reason": tasks[0].reason, "count": len(tasks), "tasks": [task.task for task in tasks]}
        for reason, tasks in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["cause"]))


def list_escalations(state: RunState) -> list[dict[str, Any]]:
    """Return the escalations of all tasks, whatever their outcome; equal ones are counted together."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for slug in sorted(state.tasks):
        for row in _list_task_escalations(state.tasks[slug]):
            group = groups.setdefault(
                (row["kind"], remove_volatile_parts(row["title"])), {**row, "count": 0, "tasks": []}
            )
            group["count"] += 1
            group["tasks"] = [*group["tasks"], slug] if slug not in group["tasks"] else group["tasks"]
    return sorted(groups.values(), key=lambda row: (-row["count"], row["kind"], row["title"]))


def list_unrepaired_causes(state: RunState) -> list[dict[str, Any]]:
    """Return the root causes that no agent has repaired, even after further attempts."""
    fixes = [state.tasks.get(row["by"]) for row in state.recipe_rows.get("base", [])]
    repaired = {task.task.data.get("cause") for task in fixes if task is not None}
    rows = [row for row in state.recipe_rows.get("held", []) if row["cause"] not in repaired]
    return [{key: row[key] for key in ("cause", "tests", "why")} for row in rows]


def find_invalid_commit(task: TaskState) -> str:
    """Return the task's commit or base if it is not a full commit id, else an empty string."""
    names = [name for name in (task.commit, task.base) if name is not None]
    return next((str(name) for name in names if not untrusted.is_commit_id(name)), "")


def exclude_task(task: TaskState, reason: str = "", findings: Sequence[Finding] = ()) -> ExcludedTask:
    """Return the task as excluded, with its reason, findings and escalations."""
    check = task.check or {}
    verdict = check.get("verdict")
    rows = [clean_finding(row) for name in ("policy", "guard", "findings") for row in check.get(name) or ()]
    if invalid_commit := find_invalid_commit(task):
        message = f"{untrusted.clean_line(invalid_commit)!r} is no commit"
        findings = [*findings, Finding(rule="reduce-ref", level="refuse", path="", what=message)]
        reason = reason or message
    if task.state != "settled":
        reason = reason or f"it is not settled: {task.state}"
    reason = untrusted.clean_line(
        reason or task.reason or str(check.get("reason") or task.outcome or "it has no commit")
    )
    return ExcludedTask(
        task=task.task.slug, title=untrusted.clean_line(task.task.title), agent=task.agent or "", outcome=task.outcome or task.state,
        verdict=verdict, reason=reason, cause=str(task.task.data.get("cause") or remove_volatile_parts(reason)),
        commit=None if find_invalid_commit(task) else task.commit,
        findings=[finding.to_dict() for finding in findings] + rows, escalations=_list_task_escalations(task),
    )  # fmt: skip


def _list_task_escalations(task: TaskState) -> list[dict[str, Any]]:
    """Return the escalations in a task's claim, with their untrusted texts cleaned."""
    rows = task.claim.get("escalations")
    return [
        {
            "kind": untrusted.clean_line(str(row.get("kind"))),
            "title": untrusted.clean_line(str(row.get("title"))),
            "detail": untrusted.clean_body(str(row.get("detail") or "")),
            "locations": [
                {"path": untrusted.clean_line(str(location.get("path"))), "line": location.get("line")}
                for location in row.get("locations") or ()
            ],
        }
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]


def clean_finding(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a finding with its untrusted texts cleaned."""
    return {key: untrusted.clean_line(value, 1000) if isinstance(value, str) else value for key, value in row.items()}
