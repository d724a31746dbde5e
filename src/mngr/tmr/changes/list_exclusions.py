"""Lists the tasks that are excluded and why, and the questions that agents raise for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_objects, find_number, get_objects
from mngr.mapreduce.journal.run_state import RunState, TaskState
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.journal_facts import BaseMoved, RootCauseGivenUp, list_facts
from mngr.tmr.prepare.root_causes import remove_volatile_parts
from mngr.tmr.verify.claim import Escalation, Location
from mngr.tmr.verify.receipt import find_receipt, find_verdict


class ExcludedTask(Struct):
    """A task whose work is excluded, with the reason."""

    task: str
    title: str
    agent: str
    outcome: str
    verdict: str | None
    reason: str
    group: str  # groups tasks that are excluded for the same reason
    commit: str | None
    findings: list[Finding] = []
    escalations: list[Escalation] = []


class ExcludedGroup(Struct):
    """Tasks that are excluded for the same reason."""

    group: str
    reason: str
    count: int
    tasks: list[str]


class EscalationGroup(Escalation):
    """An escalation that one or more tasks raise."""

    count: int
    tasks: list[str]


def group_by_reason(excluded: Sequence[ExcludedTask]) -> list[ExcludedGroup]:
    """Return the excluded tasks grouped by common reason, the most frequent first."""
    groups: dict[str, list[ExcludedTask]] = {}
    for task in excluded:
        groups.setdefault(task.group, []).append(task)
    rows = [
        ExcludedGroup(group=group, reason=tasks[0].reason, count=len(tasks), tasks=[task.task for task in tasks])
        for group, tasks in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.count, row.group))


def list_escalations(state: RunState) -> list[EscalationGroup]:
    """Return the escalations of all tasks, whatever their outcome; equal ones are counted together."""
    first_by_key: dict[tuple[str, str], Escalation] = {}
    slugs_by_key: dict[tuple[str, str], list[str]] = {}  # a slug for each time that a task raises it
    for slug in sorted(state.tasks):
        for escalation in _list_task_escalations(state.tasks[slug]):
            key = (escalation.kind, remove_volatile_parts(escalation.title))
            first_by_key.setdefault(key, escalation)
            slugs_by_key.setdefault(key, []).append(slug)
    groups = []
    for key, escalation in first_by_key.items():
        slugs = slugs_by_key[key]
        groups.append(EscalationGroup(**escalation.to_dict(), count=len(slugs), tasks=list(dict.fromkeys(slugs))))
    return sorted(groups, key=lambda group: (-group.count, group.kind, group.title))


def list_unrepaired_causes(state: RunState) -> list[RootCauseGivenUp]:
    """Return the root causes that no agent has repaired, even after further attempts."""
    fixes = [state.tasks.get(move.by) for move in list_facts(state, BaseMoved)]
    repaired = {task.task.data.get("root_cause") for task in fixes if task is not None}
    return [fact for fact in list_facts(state, RootCauseGivenUp) if fact.root_cause not in repaired]


def find_invalid_commit(task: TaskState) -> str:
    """Return the task's commit or base if it is not a full commit id, else an empty string."""
    names = [name for name in (task.commit, task.base) if name is not None]
    return next((str(name) for name in names if not clean_untrusted_text.is_commit_id(name)), "")


def exclude_task(task: TaskState, reason: str = "", findings: Sequence[Finding] = ()) -> ExcludedTask:
    """Return the task as excluded, with its reason, findings and escalations."""
    invalid_commit = find_invalid_commit(task)
    if invalid_commit:
        message = f"{clean_untrusted_text.clean_line(invalid_commit)!r} is not a commit id"
        findings = [*findings, Finding(rule="reduce-ref", level="refuse", path="", what=message)]
        reason = reason or message
    reason = clean_untrusted_text.clean_line(reason or _explain_missing_work(task))
    return ExcludedTask(
        task=task.task.slug,
        title=clean_untrusted_text.clean_line(task.task.title),
        agent=task.agent or "",
        outcome=task.outcome or task.state,
        verdict=find_verdict(task.check),
        reason=reason,
        group=str(task.task.data.get("root_cause") or remove_volatile_parts(reason)),
        commit=None if invalid_commit else task.commit,
        findings=[*findings, *list_receipt_findings(task)],
        escalations=_list_task_escalations(task),
    )


def _explain_missing_work(task: TaskState) -> str:
    """Return why a task has nothing to merge."""
    if task.state != "settled":
        return f"the task is not finished: {task.state}"
    receipt = find_receipt(task.check)
    receipt_reason = "" if receipt is None else receipt.reason
    return task.reason or receipt_reason or task.outcome or "the agent made no commit"


def _list_task_escalations(task: TaskState) -> list[Escalation]:
    """Return the escalations in a task's claim, with their untrusted texts cleaned."""
    return [
        Escalation(
            kind=clean_untrusted_text.clean_line(str(row.get("kind"))),
            title=clean_untrusted_text.clean_line(str(row.get("title"))),
            detail=clean_untrusted_text.clean_body(str(row.get("detail") or "")),
            locations=tuple(_clean_location(location) for location in get_objects(row, "locations")),
        )
        for row in as_objects(task.claim.get("escalations"))
    ]


def _clean_location(location: Mapping[str, object]) -> Location:
    line = find_number(location, "line")
    path = clean_untrusted_text.clean_line(str(location.get("path")))
    return Location(path=path, line=None if line is None else int(line))


def list_receipt_findings(task: TaskState) -> list[Finding]:
    """Return all findings of a task's receipt, with their untrusted texts cleaned."""
    receipt = find_receipt(task.check)
    return [] if receipt is None else [_clean_finding(finding) for finding in receipt.all_findings]


def _clean_finding(finding: Finding) -> Finding:
    texts = {
        key: clean_untrusted_text.clean_line(value, 1000)
        for key, value in finding.to_dict().items()
        if isinstance(value, str)
    }
    return finding.replace(**texts)
