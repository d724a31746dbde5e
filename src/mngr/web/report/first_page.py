"""The first page of a report: the state of a run, and all tasks in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from mngr.tmr.deliver.facts import describe_missing_sandbox, list_isolations
from mngr.tmr.prepare.journal_facts import BaseMoved, list_facts
from mngr.tmr.prepare.root_causes import FailureSignature, RootCause
from mngr.tmr.verify.claim import Escalation
from mngr.web.html_text import (
    escape_long,
    escape_plain,
    format_duration,
    join_limited,
    render_chip,
    render_folded,
    render_list,
)
from mngr.web.report.baseline import render_all_tests
from mngr.web.report.integration import render_integration, render_task_link
from mngr.web.report.page import render_report_page, render_section
from mngr.web.report.report_data import ReportFacts, ReportTask
from mngr.web.report.task_table import render_task_table
from mngr.web.report.tiles import render_tiles
from mngr.web.report.timeline import render_timeline

_MAX_LISTED = 30  # The most tasks to name for one escalation.
_MAX_ALERTS = 100
_MAX_AFFECTED_TESTS = 500  # Of one root cause.
_MAX_SKIPPED = 1000


def render_index(facts: ReportFacts) -> str:
    """Return the first page of the report."""
    integration = render_integration(facts)
    card = f'<div class="card">{integration}</div>' if integration else ""
    task_count = len(facts.tasks)
    parts = [
        _render_head(facts),
        render_tiles(facts),
        render_section("Integration", card),
        render_section("Timeline", render_timeline(facts), "all tasks, from the first test run to the last receipt"),
        render_section("Root causes", _render_root_causes(facts), "failures that several tests share"),
        render_section("Questions for you", _render_escalations(facts.tasks), "what the agents could not decide alone"),
        render_section("Tasks", render_task_table(facts), f'<span id="shown">{task_count}</span> of {task_count}'),
        render_section("Tests before any change", render_all_tests(facts)),
        render_section("Tests without an agent", _render_skipped(facts)),
    ]
    return render_report_page(facts.run.name, "".join(parts), "", is_live=facts.is_live)


def _render_head(facts: ReportFacts) -> str:
    """Return the head of the page: the name, state, start and duration of the run, and its alerts."""
    status = facts.status
    start_time = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.started_at))
    about = [start_time, format_duration(facts.ended_at - facts.started_at)]
    kinds = Counter(task.status.agent_kind or facts.plan.agent for task in facts.tasks)
    about += [
        f"{count} {escape_plain(kind, 60)} agent{'s' * (count != 1)}" for kind, count in sorted(kinds.items()) if kind
    ]
    if facts.plan.base:
        about.append(f"base commit <code>{escape_plain(facts.plan.base[:10])}</code>")
    alarm = f'<p class="alarm">{escape_long(status.alarm, 500)}</p>' if status.alarm else ""
    isolations = list_isolations(facts.run_state, facts.integration)
    missing_sandbox = describe_missing_sandbox(isolations)
    alarm += f'<p class="alarm">{escape_long(missing_sandbox, 500)}</p>' if missing_sandbox else ""
    sandboxes = "; ".join(isolation for isolation in isolations if not isolation.startswith("none"))
    if sandboxes:
        about.append(f"clean rooms isolated by {escape_plain(sandboxes, 300)}")
    result = ""
    if facts.integration is not None:
        result = f'<p class="lead">{escape_plain(facts.integration.totals.describe())}</p>'
    return (
        f'<header><p class="way">mngr run</p><h1>{escape_long(facts.run.name)} {render_chip(status.state)}</h1>'
        f'{result}<p class="quiet">{" · ".join(about)}</p>{alarm}{_render_alerts(facts)}</header>'
    )


def _render_alerts(facts: ReportFacts) -> str:
    alerts = facts.status.alerts
    if not alerts:
        return ""
    items = "".join(
        f"<li><time>{escape_plain(alert.at[11:19])}</time> {escape_long(alert.text, 500)}</li>"
        for alert in alerts[-_MAX_ALERTS:]
    )
    return f'<details class="alerts"><summary>{len(alerts)} {"alert" if len(alerts) == 1 else "alerts"}</summary><ul>{items}</ul></details>'


def _render_root_causes(facts: ReportFacts) -> str:
    cards = "".join(_render_root_cause(facts, root_cause) for root_cause in facts.status.root_causes)
    return f'<div class="cards">{cards}</div>' if cards else ""


def _render_root_cause(facts: ReportFacts, root_cause: RootCause) -> str:
    """Return a root cause: whether it is repaired, its signature, its tasks and its tests."""
    attempts = [task for task in facts.tasks if task.status.root_cause == root_cause.id]
    fixed_by = {move.by for move in list_facts(facts.run_state, BaseMoved)}
    result = "repaired" if any(task.slug in fixed_by for task in attempts) else "open"
    reason = ""
    for given_up in facts.status.unrepaired_root_causes:
        if given_up.root_cause == root_cause.id:
            result = "not repaired"
            reason = f'<p class="quiet">{escape_long(given_up.why, 500)}</p>'
    task_links = " ".join(
        f'<a href="tasks/{escape_plain(task.slug)}.html">{render_chip(task.outcome)}</a>' for task in attempts
    )
    tests = [f"<code>{escape_plain(test, 300)}</code>" for test in root_cause.tests[:_MAX_AFFECTED_TESTS]]
    return (
        f'<div class="card"><p>{render_chip(result)} <b>{len(root_cause.tests)} tests</b> {task_links}</p>'
        f"<p>{escape_long(root_cause.title, 500)}</p>{reason}{_render_signature(root_cause.signature)}"
        f"{render_folded('affected tests', render_list(tests))}</div>"
    )


def _render_signature(signature: FailureSignature) -> str:
    rows = "".join(
        f"<dt>{name}</dt><dd><code>{escape_long(value, 500)}</code></dd>"
        for name, value in signature.to_dict().items()
        if value
    )
    return f"<dl>{rows}</dl>"


def _render_escalations(tasks: Sequence[ReportTask]) -> str:
    """Return the escalations of all tasks, grouped by kind and title, the most frequent first."""
    first_by_key: dict[tuple[str, str], Escalation] = {}
    tasks_by_key: dict[tuple[str, str], list[ReportTask]] = {}
    for task in tasks:
        for escalation in task.escalations:
            key = (escalation.kind, escalation.title)
            first_by_key.setdefault(key, escalation)
            tasks_by_key.setdefault(key, []).append(task)
    keys = sorted(first_by_key, key=lambda key: -len(tasks_by_key[key]))
    rows = "".join(_render_escalation(first_by_key[key], tasks_by_key[key]) for key in keys)
    return f'<div class="list">{rows}</div>' if rows else ""


def _render_escalation(escalation: Escalation, tasks: Sequence[ReportTask]) -> str:
    """Return an escalation with links to the tasks that raise it."""
    task_links = join_limited([render_task_link(task) for task in tasks], _MAX_LISTED)
    detail = f"<pre>{escape_long(escalation.detail, 4000)}</pre>" if escalation.detail else ""
    count = f' <span class="quiet">{len(tasks)} tasks</span>' if len(tasks) > 1 else ""
    summary = f"{render_chip(escalation.kind)} {escape_plain(escalation.title, 300)}{count}"
    return render_folded(summary, f"<p>{task_links}</p>{detail}")


def _render_skipped(facts: ReportFacts) -> str:
    skipped = facts.status.skipped
    items = [
        f"<code>{escape_plain(fact.test, 300)}</code> {escape_plain(fact.why, 300)}" for fact in skipped[:_MAX_SKIPPED]
    ]
    noun = "test" if len(skipped) == 1 else "tests"
    return render_folded(f"{len(skipped)} {noun} without an agent, with the reasons", render_list(items))
