"""The first page of a report: the state of a run, and all tasks in one table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mngr.tmr.verify.receipt import VERDICTS
from mngr.web import pages
from mngr.web.html_text import (
    count_tokens,
    escape_long,
    escape_plain,
    format_count,
    format_dollars,
    format_duration,
    render_chip,
    to_class_name,
)
from mngr.web.report.integration import render_integration
from mngr.web.report.report_data import WORST_FIRST, ReportFacts, ReportTask, list_dicts
from mngr.web.report.timeline import render_timeline

_MAX_LISTED = 30  # The most entries of a list to show.


def render_index(facts: ReportFacts) -> str:
    """Return the first page of the report."""
    parts = [
        _render_head(facts),
        _render_tiles(facts),
        render_section("Integration", _render_card(render_integration(facts))),
        render_section("Timeline", render_timeline(facts), "all agents, from the first test to the last receipt"),
        render_section("Shared causes", _render_root_causes(facts), "tests that failed alike, and who repaired it"),
        render_section("For people", _render_escalations(facts.tasks), "what agents cannot decide"),
        render_section(
            "Tasks",
            _render_task_table(facts),
            f'<span id="shown">{len(facts.tasks)}</span> of {len(facts.tasks)}',
        ),
        render_section("Left out", _render_skipped(facts)),
    ]
    return render_report_page(facts.run.name, "".join(parts), "", live=facts.is_live)


def render_report_page(
    title: str, body: str, up: str, *, live: bool, plays: bool = False, fingerprint: str = ""
) -> str:
    """Return a page of a report around a body; a `live` page reloads itself from time to time."""
    refresh_tag = '<noscript><meta http-equiv="refresh" content="20"></noscript>' if live else ""
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}"><meta name="color-scheme" content="light dark">'
        f'<meta name="mngr-of" content="{fingerprint}">{refresh_tag}<script src="{up}static/theme.js"></script>'
        f'<link rel="stylesheet" href="{up}static/report.css"><script defer src="{up}static/report.js"></script>'
    )
    toggle = '<button id="theme" type="button" title="light or dark" aria-label="light or dark">◐</button>'
    content = f'<div class="report"{" data-live" if live else ""}>{toggle}{body}</div>'
    return pages.render_page(title[:200], content, up, plays=plays, head=head)


_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' file: 'wasm-unsafe-eval'; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "font-src data:; connect-src data: blob:; worker-src blob:; form-action 'none'; base-uri 'none'"
)


def render_section(title: str, body: str, about: str = "") -> str:
    """Return a section with a heading, or nothing if the body is empty."""
    about_html = f'<span class="about">{about}</span>' if about else ""
    section_id = title.lower().replace(" ", "-")
    return f'<section class="part" id="{section_id}"><h2>{title}{about_html}</h2>{body}</section>' if body else ""


def _render_card(body: str) -> str:
    return f'<div class="card">{body}</div>' if body else ""


def _render_head(facts: ReportFacts) -> str:
    """Return the head of the page: the name, state, start and duration of the run, and its alerts."""
    status = facts.status
    start_time = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.started_at))
    about = [start_time, format_duration(facts.ended_at - facts.started_at)]
    if facts.plan.get("agent"):
        about.append(f"by {escape_plain(facts.plan['agent'], 60)}")
    if facts.plan.get("base"):
        about.append(f"on <code>{escape_long(str(facts.plan['base'])[:10])}</code>")
    alarm = f'<p class="alarm">{escape_long(status["alarm"], 500)}</p>' if status["alarm"] else ""
    alerts = list_dicts(status["alerts"])
    alert_items = "".join(
        f"<li><time>{escape_long(row['at'][11:19])}</time> {escape_long(row['text'], 500)}</li>"
        for row in alerts[-100:]
    )
    alerts_html = (
        f'<details class="alerts"><summary>{len(alerts)} alerts</summary><ul>{alert_items}</ul></details>'
        if alert_items
        else ""
    )
    return (
        f'<header><p class="way">a run of mngr</p><h1>{escape_long(facts.run.name)} {render_chip(status["state"])}</h1>'
        f'<p class="quiet">{" · ".join(about)}</p>{alarm}{alerts_html}</header>'
    )


# Tiles


def _render_tiles(facts: ReportFacts) -> str:
    outcomes = _count_words(task.outcome for task in facts.tasks)
    tiles = [_render_tile(str(len(facts.tasks)), "tasks", _render_bar(_order_counts(outcomes, WORST_FIRST)))]
    if facts.plan.get("kind") != "map":  # `mngr map` has no tests and no receipts.
        verdicts = _count_words(str(task.status_row["verdict"] or "none") for task in facts.tasks)
        details = _render_strip(_order_counts(verdicts, VERDICTS)) + _render_claim_matrix(facts.tasks)
        tiles.append(_render_tile(*_progress_tile(facts)))
        tiles.append(_render_tile(str(verdicts.get("confirmed", 0)), "confirmed by us", details, "wide"))
    tiles += [_render_tile(*_cost_tile(facts)), _render_tile(*_duration_tile(facts))]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _render_tile(number: str, label: str, details: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><p><b>{number}</b> {label}</p>{details}</div>'


def _render_strip(parts: Sequence[tuple[str, float]]) -> str:
    """Return a bar that shows the shares of a whole."""
    total = sum(number for _, number in parts) or 1.0
    return (
        '<div class="bar">'
        + "".join(
            f'<i class="{to_class_name(name)}" title="{number:g} {escape_plain(name, 60)}" style="flex:{number / total:.4f}"></i>'
            for name, number in parts
            if number
        )
        + "</div>"
    )


def _render_bar(parts: Sequence[tuple[str, float]], label: Callable[[str, float], str] | None = None) -> str:
    """Return the bar of `_render_strip` with a legend."""
    names = "".join(
        f'<span class="{to_class_name(name)}"><i></i>{escape_plain(label(name, number) if label else f"{number:g} {name}", 200)}</span>'
        for name, number in parts
    )
    return f'{_render_strip(parts)}<div class="key">{names}</div>' if parts else ""


def _progress_tile(facts: ReportFacts) -> tuple[str, str, str]:
    """Return the baseline for its tile: number, label and details."""
    rows = facts.rows_by_type.get("standing")
    if not rows:
        run_count = len(facts.rows_by_type.get("ran", []))
        return str(run_count), "runs of untouched tests", ""
    row = rows[-1]
    parts = [(name, float(row["counts"].get(name, 0))) for name in ("fail", "flaky", "pass") if row["counts"].get(name)]
    return str(row["tests"]), "tests, untouched", _render_bar(parts)


def _cost_tile(facts: ReportFacts) -> tuple[str, str, str]:
    """Return the cost for its tile: number, label and details."""
    budget = facts.status["budget"]
    spend = sorted(budget["spend"].items(), key=lambda item: -count_tokens(item[1]))
    costs = {kind: format_dollars(usage.get("cost_usd")) for kind, usage in spend}
    parts = [(kind, float(count_tokens(usage))) for kind, usage in spend if count_tokens(usage)]
    notes = [f"{format_count(count_tokens(budget))} tokens" if count_tokens(budget) else "no tokens were used"]
    if budget.get("before_edit"):
        notes.append(f"{format_count(budget['before_edit'])} before the first edit of each")
    hosts = budget.get("hosts") or {}
    if hosts.get("made"):
        price = "" if hosts["cost_usd"] is None else f", {format_dollars(hosts['cost_usd'])}"
        notes.append(f"{hosts['hours']:.2f} host-hours on {hosts['made']} hosts{price}")
    bar = _render_bar(parts, lambda kind, number: f"{kind} {format_count(number)}, {costs[kind]}")
    return format_dollars(budget.get("cost_usd")), "spent", f'{bar}<p class="quiet">{" · ".join(notes)}</p>'


def _duration_tile(facts: ReportFacts) -> tuple[str, str, str]:
    """Return the duration and the largest number of parallel agents for their tile."""
    working_spans = [span for task in facts.tasks for span in task.spans if span.state not in ("queued", "parked")]
    changes = sorted([(span.begin, 1) for span in working_spans] + [(span.end, -1) for span in working_spans])
    peak = running = 0
    for _, change in changes:
        running += change
        peak = max(peak, running)
    total = sum(span.end - span.begin for span in working_spans)
    note = (
        f"{peak} at once at most; {format_duration(total)} if they had come one after the other"
        if working_spans
        else "no agent yet"
    )
    return format_duration(facts.ended_at - facts.started_at), "in all", f'<p class="quiet">{note}</p>'


def _render_claim_matrix(tasks: Sequence[ReportTask]) -> str:
    """Return a table of the claims of the agents against the verdicts of mngr."""
    claims = _order_counts(
        _count_words(str(task.status_row["claimed"] or "nothing") for task in tasks),
        ("fixed", "improved", "unchanged", "blocked", "failed"),
    )
    verdicts = _order_counts(_count_words(str(task.status_row["verdict"] or "none") for task in tasks), VERDICTS)
    pairs = _count_words(
        f"{task.status_row['claimed'] or 'nothing'}\0{task.status_row['verdict'] or 'none'}" for task in tasks
    )
    head = "".join(f"<th>{render_chip(name)}</th>" for name, _ in verdicts)
    body = ""
    for claim, _ in claims:
        cells = [pairs.get(f"{claim}\0{name}", 0) for name, _ in verdicts]
        body += f"<tr><th>{render_chip(claim)}</th>" + "".join(
            f'<td class="{to_class_name(name)}{"" if count else " none"}">{count or "·"}</td>'
            for count, (name, _) in zip(cells, verdicts, strict=True)
        )
    return f'<table class="matrix"><tr><td class="quiet">claimed ↓ seen →</td>{head}</tr>{body}</table>'


def _count_words(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


def _order_counts(counts: dict[str, int], order: Sequence[str]) -> list[tuple[str, float]]:
    """Return the counts as pairs: names in the given order first, then the others alphabetically."""
    known = [name for name in order if name in counts]
    return [(name, float(counts[name])) for name in [*known, *sorted(set(counts) - set(known))]]


# Root causes and escalations


def _render_root_causes(facts: ReportFacts) -> str:
    cards = "".join(_render_root_cause(facts, root_cause) for root_cause in list_dicts(facts.status["clusters"]))
    return f'<div class="cards">{cards}</div>' if cards else ""


def _render_root_cause(facts: ReportFacts, root_cause: dict[str, Any]) -> str:
    held_row = next((row for row in facts.status["held"] if row["cause"] == root_cause.get("id")), None)
    attempts = [task for task in facts.tasks if task.status_row["cluster"] == root_cause.get("id")]
    repaired = {row["by"] for row in facts.rows_by_type.get("base", [])} & {task.slug for task in attempts}
    result = "held" if held_row else "repaired" if repaired else "open"
    evidence = root_cause.get("signature")
    signature_html = "".join(
        f"<dt>{escape_long(key)}</dt><dd><code>{escape_long(value, 500)}</code></dd>"
        for key, value in (evidence.items() if isinstance(evidence, dict) else ())
        if value
    )
    names = root_cause.get("tests") or []
    tests = "".join(f"<li><code>{escape_plain(name, 300)}</code></li>" for name in names[:500])
    task_links = " ".join(
        f'<a href="tasks/{escape_plain(task.slug)}.html">{render_chip(task.outcome)}</a>' for task in attempts
    )
    reason = f'<p class="quiet">{escape_long(held_row["why"], 500)}</p>' if held_row else ""
    return (
        f'<div class="card"><p>{render_chip(result)} <b>{len(names)} tests</b> {task_links}</p><p>{escape_long(root_cause.get("title"), 500)}</p>{reason}'
        f'<dl>{signature_html}</dl><details><summary>its tests</summary><ul class="plain">{tests}</ul></details></div>'
    )


def _render_escalations(tasks: Sequence[ReportTask]) -> str:
    """Return the escalations of all tasks, grouped by kind and title, the most frequent first."""
    groups: dict[tuple[str, str], list[tuple[ReportTask, dict[str, Any]]]] = {}
    for task in tasks:
        for row in list_dicts(task.state.claim.get("escalations")):
            groups.setdefault((str(row.get("kind")), str(row.get("title"))), []).append((task, row))
    rows = []
    for (kind, title), entries in sorted(groups.items(), key=lambda item: -len(item[1])):
        task_links = ", ".join(
            f'<a href="tasks/{escape_plain(task.slug)}.html">{escape_plain(task.title.rpartition("::")[2], 80)}</a>'
            for task, _ in entries[:_MAX_LISTED]
        )
        more = f" and {len(entries) - _MAX_LISTED} more" if len(entries) > _MAX_LISTED else ""
        detail = entries[0][1].get("detail")
        body = f"<pre>{escape_long(detail, 4000)}</pre>" if detail else ""
        rows.append(
            f"<details><summary>{render_chip(kind)} <b>{len(entries)}×</b> {escape_plain(title, 300)}</summary><p>{task_links}{more}</p>{body}</details>"
        )
    return f'<div class="list">{"".join(rows)}</div>' if rows else ""


def _render_skipped(facts: ReportFacts) -> str:
    rows = facts.status["skipped"]
    body = "".join(
        f"<li><code>{escape_plain(row['test'], 300)}</code> {escape_plain(row['why'], 300)}</li>" for row in rows[:1000]
    )
    return (
        f'<details><summary>{len(rows)} test{"s" * (len(rows) > 1)} that got no agent</summary><ul class="plain">{body}</ul></details>'
        if rows
        else ""
    )


# Task table


def _render_task_table(facts: ReportFacts) -> str:
    if not facts.tasks:
        return '<p class="quiet">There are none yet.</p>'
    names = ("", "task", "claimed", "seen", "found", "kinds", "time", "tokens", "cost")
    head = "".join(
        f'<th><button type="button" data-at="{index}">{name or "state"}</button></th>'
        for index, name in enumerate(names)
    )
    rows = "".join(_render_task_row(task) for task in facts.tasks)
    kinds = sorted(
        {kind for task in facts.tasks for kind in task.change_kinds} | {_build_sort_key(task) for task in facts.tasks}
    )
    filters = (
        _render_filter(
            "outcome",
            [name for name, _ in _order_counts(_count_words(task.outcome for task in facts.tasks), WORST_FIRST)],
        )
        + _render_filter(
            "verdict",
            [
                name
                for name, _ in _order_counts(
                    _count_words(str(task.status_row["verdict"] or "none") for task in facts.tasks), VERDICTS
                )
            ],
        )
        + _render_filter("kind", kinds)
    )
    filter_bar = (
        f'<div class="filter"><input id="search" type="search" placeholder="find a task, an agent, a reason   /" aria-label="find">{filters}'
        '<button id="clear" type="button">all</button></div>'
    )
    return f'{filter_bar}<div class="scroll"><table id="tasks-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _render_filter(name: str, values: Sequence[str]) -> str:
    options = "".join(
        f'<option value="{escape_plain(value, 60)}">{escape_plain(value, 60)}</option>' for value in values
    )
    return f'<select id="by-{name}" aria-label="{name}"><option value="">any {name}</option>{options}</select>'


def _build_sort_key(task: ReportTask) -> str:
    return str(task.state.task.data.get("kind") or "task")


def _render_task_row(task: ReportTask) -> str:
    row = task.status_row
    levels = _count_words(str(finding.get("level")) for finding in task.findings)
    finding_chips = " ".join(render_chip(level, f"{count} {level}") for level, count in levels.items())
    tokens = count_tokens(row["usage"])
    cost = (row["usage"] or {}).get("cost_usd")
    summary = task.state.claim.get("summary")
    explanation = str(row["reason"] or summary or task.state.task.data.get("about") or "").strip("- \n")
    data_attributes = f'data-outcome="{escape_plain(task.outcome, 60)}" data-verdict="{escape_plain(row["verdict"] or "none", 60)}" data-kinds="{escape_plain(" ".join([*task.change_kinds, _build_sort_key(task)]), 300)}"'
    kinds = " ".join(f'<span class="kind">{escape_plain(kind, 40)}</span>' for kind in task.change_kinds)
    path, _, name = task.title.rpartition("::")
    path_html = f'<span class="quiet">{escape_plain(path, 200)}</span>' if path else ""
    attempt_html = f' <span class="quiet">try {task.state.attempt}</span>' if task.state.attempt > 1 else ""
    return (
        f'<tr data-slug="{escape_plain(task.slug)}" {data_attributes}><td>{render_chip(task.outcome)}</td>'
        f'<td><a href="tasks/{escape_plain(task.slug)}.html"><b>{escape_plain(name, 200)}</b></a> {path_html}{attempt_html}<p class="why">{escape_plain(explanation, 240)}</p></td>'
        f"<td>{render_chip(row['claimed'])}</td><td>{render_chip(row['verdict'])}</td><td>{finding_chips}</td><td>{kinds}</td>"
        f'<td data-n="{row["seconds"] or 0}">{format_duration(row["seconds"])}</td><td data-n="{tokens}">{format_count(tokens) if tokens else ""}</td>'
        f'<td data-n="{cost or 0}">{format_dollars(cost) if row["usage"] else ""}</td></tr>'
    )
