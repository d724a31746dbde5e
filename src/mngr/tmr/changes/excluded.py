"""What is not merged, and why; and what agents want somebody to see to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.mapreduce.run_state import RunState, TaskState
from mngr.tmr.commits import untrusted
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import remove_volatile_parts


class ExcludedTask(Struct):
    """What is not merged, and why."""

    task: str
    title: str
    agent: str
    outcome: str
    verdict: str | None
    reason: str
    cause: str  # what others may have in common with it
    commit: str | None
    findings: list[dict[str, Any]] = []
    escalations: list[dict[str, Any]] = []


def group_by_reason(left: Sequence[ExcludedTask]) -> list[dict[str, Any]]:
    """What was left out for the same cause, the most frequent first."""
    groups: dict[str, list[ExcludedTask]] = {}
    for one in left:
        groups.setdefault(one.cause, []).append(one)
    rows = [
        {"cause": cause, "reason": some[0].reason, "count": len(some), "tasks": [one.task for one in some]}
        for cause, some in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row["count"], row["cause"]))


def list_escalations(state: RunState) -> list[dict[str, Any]]:
    """What somebody else must see to, of all tasks whatever became of them; those that say the same together."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for slug in sorted(state.tasks):
        for row in _list_task_escalations(state.tasks[slug]):
            same = groups.setdefault(
                (row["kind"], remove_volatile_parts(row["title"])), {**row, "count": 0, "tasks": []}
            )
            same["count"] += 1
            same["tasks"] = [*same["tasks"], slug] if slug not in same["tasks"] else same["tasks"]
    return sorted(groups.values(), key=lambda row: (-row["count"], row["kind"], row["title"]))


def list_unrepaired_causes(state: RunState) -> list[dict[str, Any]]:
    """Causes that nobody has repaired, also not later when they were tried again."""
    fixes = [state.tasks.get(row["by"]) for row in state.recipe_rows.get("base", [])]
    repaired = {one.task.data.get("cause") for one in fixes if one is not None}
    rows = [row for row in state.recipe_rows.get("held", []) if row["cause"] not in repaired]
    return [{key: row[key] for key in ("cause", "tests", "why")} for row in rows]


def find_invalid_commit(one: TaskState) -> str:
    """A name that git could take for something else than a commit."""
    names = [name for name in (one.commit, one.base) if name is not None]
    return next((str(name) for name in names if not untrusted.is_commit_id(name)), "")


def exclude_task(one: TaskState, why: str = "", findings: Sequence[Finding] = ()) -> ExcludedTask:
    """A task that is not taken, with what is known of it."""
    check = one.check or {}
    verdict = check.get("verdict")
    rows = [clean_finding(row) for name in ("policy", "guard", "findings") for row in check.get(name) or ()]
    if wrong := find_invalid_commit(one):
        what = f"{untrusted.clean_line(wrong)!r} is no commit"
        findings = [*findings, Finding(rule="reduce-ref", level="refuse", path="", what=what)]
        why = why or what
    if one.state != "settled":
        why = why or f"it is not settled: {one.state}"
    why = untrusted.clean_line(why or one.reason or str(check.get("reason") or one.outcome or "it has no commit"))
    return ExcludedTask(
        task=one.task.slug, title=untrusted.clean_line(one.task.title), agent=one.agent or "", outcome=one.outcome or one.state,
        verdict=verdict, reason=why, cause=str(one.task.data.get("cause") or remove_volatile_parts(why)),
        commit=None if find_invalid_commit(one) else one.commit,
        findings=[finding.to_dict() for finding in findings] + rows, escalations=_list_task_escalations(one),
    )  # fmt: skip


def _list_task_escalations(one: TaskState) -> list[dict[str, Any]]:
    rows = one.claim.get("escalations")
    return [
        {
            "kind": untrusted.clean_line(str(row.get("kind"))),
            "title": untrusted.clean_line(str(row.get("title"))),
            "detail": untrusted.clean_body(str(row.get("detail") or "")),
            "locations": [
                {"path": untrusted.clean_line(str(place.get("path"))), "line": place.get("line")}
                for place in row.get("locations") or ()
            ],
        }
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict)
    ]


def clean_finding(row: Mapping[str, Any]) -> dict[str, Any]:
    """A finding without what its words could do."""
    return {key: untrusted.clean_line(value, 1000) if isinstance(value, str) else value for key, value in row.items()}
