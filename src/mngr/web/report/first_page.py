"""The first page of a report: the state of a run, and all tasks in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from mngr.base.model import Struct
from mngr.tmr.deliver.pull_request_facts import describe_missing_sandbox, list_isolations
from mngr.tmr.prepare.journal_facts import BaseMoved, list_facts
from mngr.tmr.prepare.root_causes import RootCause
from mngr.tmr.verify.claim import Escalation
from mngr.web.report.baseline import BaselineTest, list_baseline_tests
from mngr.web.report.integration import IntegrationCard, build_integration_card
from mngr.web.report.report_data import ReportFacts, ReportTask
from mngr.web.report.task_table import TaskTable, build_task_table
from mngr.web.report.tiles import Tiles, build_tiles
from mngr.web.report.timeline import Timeline, build_timeline
from mngr.web.report.trends.trends import Trends
from mngr.web.templates import render_template


class RootCauseCard(Struct):
    """A root cause, and whether it is repaired."""

    root_cause: RootCause
    result: str  # repaired | not repaired | open
    reason: str  # Why it is not repaired, or nothing.
    signature: dict[str, str]
    attempts: list[ReportTask]


class EscalationRow(Struct):
    """A question of the agents, and the tasks that raise it."""

    escalation: Escalation
    tasks: list[ReportTask]


class FirstPage(Struct):
    """The facts on the first page of a report."""

    start_time: str
    seconds: float
    agent_counts: dict[str, int]  # By kind.
    sandboxes: str  # How the clean rooms were isolated.
    missing_sandbox: str  # That clean rooms were not isolated, or nothing.
    tiles: Tiles
    integration: IntegrationCard
    timeline: Timeline | None
    root_causes: list[RootCauseCard]
    escalations: list[EscalationRow]
    task_table: TaskTable
    baseline_tests: list[BaselineTest]


def render_index(facts: ReportFacts, trends: Trends | None) -> str:
    """Return the first page of the report, with a link to the trends if there are any."""
    return render_template(
        "report/index.html",
        up="",
        plays=False,
        is_live=facts.is_live,
        facts=facts,
        page=build_first_page(facts),
        run_count=0 if trends is None else len(trends.runs),
    )


def build_first_page(facts: ReportFacts) -> FirstPage:
    """Return the facts on the first page, in the form in which the page shows them."""
    kinds = Counter(task.status.agent_kind or facts.plan.agent for task in facts.tasks)
    isolations = list_isolations(facts.run_state, facts.integration)
    return FirstPage(
        start_time=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.started_at)),
        seconds=facts.ended_at - facts.started_at,
        agent_counts={kind: count for kind, count in sorted(kinds.items()) if kind},
        sandboxes="; ".join(isolation for isolation in isolations if not isolation.startswith("none")),
        missing_sandbox=describe_missing_sandbox(isolations),
        tiles=build_tiles(facts),
        integration=build_integration_card(facts),
        timeline=build_timeline(facts),
        root_causes=[_build_root_cause(facts, root_cause) for root_cause in facts.status.root_causes],
        escalations=_group_escalations(facts.tasks),
        task_table=build_task_table(facts),
        baseline_tests=list_baseline_tests(facts),
    )


def _build_root_cause(facts: ReportFacts, root_cause: RootCause) -> RootCauseCard:
    """Return a root cause: whether it is repaired, its signature, its tasks and its tests."""
    attempts = [task for task in facts.tasks if task.status.root_cause == root_cause.id]
    fixed_by = {move.by for move in list_facts(facts.run_state, BaseMoved)}
    result, reason = "repaired" if any(task.slug in fixed_by for task in attempts) else "open", ""
    for given_up in facts.status.unrepaired_root_causes:
        if given_up.root_cause == root_cause.id:
            result, reason = "not repaired", given_up.why or ""
    signature = {name: str(value) for name, value in root_cause.signature.to_dict().items() if value}
    return RootCauseCard(root_cause=root_cause, result=result, reason=reason, signature=signature, attempts=attempts)


def _group_escalations(tasks: Sequence[ReportTask]) -> list[EscalationRow]:
    """Return the escalations of all tasks, grouped by kind and title, the most frequent first."""
    first_by_key: dict[tuple[str, str], Escalation] = {}
    tasks_by_key: dict[tuple[str, str], list[ReportTask]] = {}
    for task in tasks:
        for escalation in task.escalations:
            key = (escalation.kind, escalation.title)
            first_by_key.setdefault(key, escalation)
            tasks_by_key.setdefault(key, []).append(task)
    rows = [EscalationRow(escalation=first_by_key[key], tasks=tasks_by_key[key]) for key in first_by_key]
    return sorted(rows, key=lambda row: -len(row.tasks))
