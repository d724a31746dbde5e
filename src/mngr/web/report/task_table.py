"""The table of all tasks on the first page of a report, with filters. `report.js` sorts and filters it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mngr.tmr.verify.receipt import VERDICTS
from mngr.web.html_text import escape_plain, format_dollars, format_duration, render_chip, shorten_number
from mngr.web.report.report_data import WORST_FIRST, ReportFacts, ReportTask, count_in_order

_COLUMNS = ("outcome", "task", "claimed", "verdict", "findings", "changes", "time", "tokens", "cost")


def render_task_table(facts: ReportFacts) -> str:
    """Return the table of all tasks, the worst first."""
    if not facts.tasks:
        return '<p class="quiet">There are no tasks yet.</p>'
    head = "".join(
        f'<th><button type="button" data-at="{index}">{name}</button></th>' for index, name in enumerate(_COLUMNS)
    )
    rows = "".join(_render_row(task) for task in facts.tasks)
    table = f'<table id="tasks-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'{_render_filters(facts)}<div class="scroll">{table}</div>'


def _render_filters(facts: ReportFacts) -> str:
    outcomes = count_in_order((task.outcome for task in facts.tasks), WORST_FIRST)
    verdicts = count_in_order((task.verdict for task in facts.tasks), VERDICTS)
    kinds = sorted({kind for task in facts.tasks for kind in _list_kinds(task)})
    filters = _render_filter("outcome", outcomes) + _render_filter("verdict", verdicts) + _render_filter("kind", kinds)
    return (
        f'<div class="filter"><input id="search" type="search" placeholder="find a task, an agent or a reason (press /)" aria-label="find a task, an agent or a reason">{filters}'
        '<button id="clear" type="button">show all</button></div>'
    )


def _render_filter(name: str, values: Iterable[str]) -> str:
    escaped_values = [escape_plain(value, 60) for value in values]
    options = "".join(f'<option value="{value}">{value}</option>' for value in escaped_values)
    return f'<select id="by-{name}" aria-label="{name}"><option value="">any {name}</option>{options}</select>'


def _list_kinds(task: ReportTask) -> list[str]:
    """Return the kinds of the claimed changes, and the kind of the task."""
    return [*task.change_kinds, task.kind]


def _render_row(task: ReportTask) -> str:
    status = task.status
    levels = Counter(finding.level for finding in task.findings)
    finding_chips = " ".join(render_chip(level, f"{count} {level}") for level, count in levels.items())
    kinds = " ".join(f'<span class="kind">{escape_plain(kind, 40)}</span>' for kind in task.change_kinds)
    data_attributes = (
        f'data-slug="{escape_plain(task.slug)}" data-outcome="{escape_plain(task.outcome, 60)}" '
        f'data-verdict="{escape_plain(task.verdict, 60)}" data-kinds="{escape_plain(" ".join(_list_kinds(task)), 300)}"'
    )
    return (
        f"<tr {data_attributes}><td>{render_chip(task.outcome)}</td><td>{_render_title(task)}</td>"
        f"<td>{render_chip(status.claimed)}</td><td>{render_chip(status.verdict)}</td><td>{finding_chips}</td><td>{kinds}</td>"
        f'<td data-n="{status.seconds or 0}">{format_duration(status.seconds)}</td>{_render_usage_cells(task)}</tr>'
    )


def _render_title(task: ReportTask) -> str:
    """Return the test with its path, the attempt, and the reason of the outcome or what the agent says."""
    path = task.title.rpartition("::")[0]
    path_html = f'<span class="quiet">{escape_plain(path, 200)}</span>' if path else ""
    attempt_html = f' <span class="quiet">attempt {task.state.attempt}</span>' if task.state.attempt > 1 else ""
    summary = "" if task.claim is None else task.claim.summary
    explanation = (task.status.reason or summary or task.about).strip("- \n")
    return (
        f'<a href="tasks/{escape_plain(task.slug)}.html"><b>{escape_plain(task.short_title, 200)}</b></a> '
        f'{path_html}{attempt_html}<p class="why">{escape_plain(explanation, 240)}</p>'
    )


def _render_usage_cells(task: ReportTask) -> str:
    usage = task.status.usage
    if usage is None:
        return '<td data-n="0"></td><td data-n="0"></td>'
    tokens = shorten_number(usage.tokens) if usage.tokens else ""
    return (
        f'<td data-n="{usage.tokens}">{tokens}</td>'
        f'<td data-n="{usage.cost_usd or 0}">{format_dollars(usage.cost_usd)}</td>'
    )
