"""The first page of a report: how a run stands, and every task in one table."""

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
from mngr.web.report.run_facts import WORST_FIRST, ReportFacts, ReportTask, list_dicts
from mngr.web.report.timeline import render_timeline

_MAX_LISTED = 30  # entries of a list that are shown at once


def render_index(facts: ReportFacts) -> str:
    """The page."""
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


def render_report_page(title: str, body: str, up: str, *, live: bool, plays: bool = False, of: str = "") -> str:
    """A page of a report around a body; one that is `live` loads itself again now and then."""
    again = '<noscript><meta http-equiv="refresh" content="20"></noscript>' if live else ""
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_CONTENT_SECURITY_POLICY}"><meta name="color-scheme" content="light dark">'
        f'<meta name="mngr-of" content="{of}">{again}<script src="{up}static/theme.js"></script>'
        f'<link rel="stylesheet" href="{up}static/report.css"><script defer src="{up}static/report.js"></script>'
    )
    toggle = '<button id="theme" type="button" title="light or dark" aria-label="light or dark">◐</button>'
    inside = f'<div class="report"{" data-live" if live else ""}>{toggle}{body}</div>'
    return pages.render_page(title[:200], inside, up, plays=plays, head=head)


_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' file: 'wasm-unsafe-eval'; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "font-src data:; connect-src data: blob:; worker-src blob:; form-action 'none'; base-uri 'none'"
)


def render_section(title: str, body: str, about: str = "") -> str:
    """A part with a heading; nothing where there is nothing to show."""
    more = f'<span class="about">{about}</span>' if about else ""
    name = title.lower().replace(" ", "-")
    return f'<section class="part" id="{name}"><h2>{title}{more}</h2>{body}</section>' if body else ""


def _render_card(body: str) -> str:
    return f'<div class="card">{body}</div>' if body else ""


def _render_head(facts: ReportFacts) -> str:
    found = facts.status
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.started_at))
    about = [began, format_duration(facts.ended_at - facts.started_at)]
    if facts.plan.get("agent"):
        about.append(f"by {escape_plain(facts.plan['agent'], 60)}")
    if facts.plan.get("base"):
        about.append(f"on <code>{escape_long(str(facts.plan['base'])[:10])}</code>")
    alarm = f'<p class="alarm">{escape_long(found["alarm"], 500)}</p>' if found["alarm"] else ""
    alerts = list_dicts(found["alerts"])
    told = "".join(
        f"<li><time>{escape_long(row['at'][11:19])}</time> {escape_long(row['text'], 500)}</li>"
        for row in alerts[-100:]
    )
    heard = f'<details class="alerts"><summary>{len(alerts)} alerts</summary><ul>{told}</ul></details>' if told else ""
    return (
        f'<header><p class="way">a run of mngr</p><h1>{escape_long(facts.run.name)} {render_chip(found["state"])}</h1>'
        f'<p class="quiet">{" · ".join(about)}</p>{alarm}{heard}</header>'
    )


# The tiles


def _render_tiles(facts: ReportFacts) -> str:
    outcomes = _count_words(one.outcome for one in facts.tasks)
    tiles = [_render_tile(str(len(facts.tasks)), "tasks", _render_bar(_order_counts(outcomes, WORST_FIRST)))]
    if facts.plan.get("kind") != "map":  # which knows of no tests, and of no receipts
        verdicts = _count_words(str(one.status_row["verdict"] or "none") for one in facts.tasks)
        more = _render_strip(_order_counts(verdicts, VERDICTS)) + _render_claim_matrix(facts.tasks)
        tiles.append(_render_tile(*_progress_tile(facts)))
        tiles.append(_render_tile(str(verdicts.get("confirmed", 0)), "confirmed by us", more, "wide"))
    tiles += [_render_tile(*_cost_tile(facts)), _render_tile(*_duration_tile(facts))]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _render_tile(number: str, what: str, more: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><p><b>{number}</b> {what}</p>{more}</div>'


def _render_strip(parts: Sequence[tuple[str, float]]) -> str:
    """Shares of a whole, one beside the other."""
    whole = sum(number for _, number in parts) or 1.0
    return (
        '<div class="bar">'
        + "".join(
            f'<i class="{to_class_name(name)}" title="{number:g} {escape_plain(name, 60)}" style="flex:{number / whole:.4f}"></i>'
            for name, number in parts
            if number
        )
        + "</div>"
    )


def _render_bar(parts: Sequence[tuple[str, float]], label: Callable[[str, float], str] | None = None) -> str:
    """The same with their names."""
    names = "".join(
        f'<span class="{to_class_name(name)}"><i></i>{escape_plain(label(name, number) if label else f"{number:g} {name}", 200)}</span>'
        for name, number in parts
    )
    return f'{_render_strip(parts)}<div class="key">{names}</div>' if parts else ""


def _progress_tile(facts: ReportFacts) -> tuple[str, str, str]:
    rows = facts.rows_by_type.get("standing")
    if not rows:
        ran = len(facts.rows_by_type.get("ran", []))
        return str(ran), "runs of untouched tests", ""
    row = rows[-1]
    parts = [(name, float(row["counts"].get(name, 0))) for name in ("fail", "flaky", "pass") if row["counts"].get(name)]
    return str(row["tests"]), "tests, untouched", _render_bar(parts)


def _cost_tile(facts: ReportFacts) -> tuple[str, str, str]:
    budget = facts.status["budget"]
    spend = sorted(budget["spend"].items(), key=lambda item: -count_tokens(item[1]))
    costs = {kind: format_dollars(used.get("cost_usd")) for kind, used in spend}
    parts = [(kind, float(count_tokens(used))) for kind, used in spend if count_tokens(used)]
    said = [f"{format_count(count_tokens(budget))} tokens" if count_tokens(budget) else "no tokens were used"]
    if budget.get("before_edit"):
        said.append(f"{format_count(budget['before_edit'])} before the first edit of each")
    rented = budget.get("hosts") or {}
    if rented.get("made"):
        price = "" if rented["cost_usd"] is None else f", {format_dollars(rented['cost_usd'])}"
        said.append(f"{rented['hours']:.2f} host-hours on {rented['made']} hosts{price}")
    more = _render_bar(parts, lambda kind, number: f"{kind} {format_count(number)}, {costs[kind]}")
    return format_dollars(budget.get("cost_usd")), "spent", f'{more}<p class="quiet">{" · ".join(said)}</p>'


def _duration_tile(facts: ReportFacts) -> tuple[str, str, str]:
    """How long it took, and how many worked side by side."""
    at_work = [span for one in facts.tasks for span in one.spans if span.state not in ("queued", "parked")]
    moves = sorted([(span.begin, 1) for span in at_work] + [(span.end, -1) for span in at_work])
    most = now = 0
    for _, change in moves:
        now += change
        most = max(most, now)
    whole = sum(span.end - span.begin for span in at_work)
    said = (
        f"{most} at once at most; {format_duration(whole)} if they had come one after the other"
        if at_work
        else "no agent yet"
    )
    return format_duration(facts.ended_at - facts.started_at), "in all", f'<p class="quiet">{said}</p>'


def _render_claim_matrix(tasks: Sequence[ReportTask]) -> str:
    """What was claimed against what we saw."""
    claims = _order_counts(
        _count_words(str(one.status_row["claimed"] or "nothing") for one in tasks),
        ("fixed", "improved", "unchanged", "blocked", "failed"),
    )
    seen = _order_counts(_count_words(str(one.status_row["verdict"] or "none") for one in tasks), VERDICTS)
    pairs = _count_words(
        f"{one.status_row['claimed'] or 'nothing'}\0{one.status_row['verdict'] or 'none'}" for one in tasks
    )
    head = "".join(f"<th>{render_chip(name)}</th>" for name, _ in seen)
    body = ""
    for claim, _ in claims:
        cells = [pairs.get(f"{claim}\0{name}", 0) for name, _ in seen]
        body += f"<tr><th>{render_chip(claim)}</th>" + "".join(
            f'<td class="{to_class_name(name)}{"" if n else " none"}">{n or "·"}</td>'
            for n, (name, _) in zip(cells, seen, strict=True)
        )
    return f'<table class="matrix"><tr><td class="quiet">claimed ↓ seen →</td>{head}</tr>{body}</table>'


def _count_words(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in words:
        found[one] = found.get(one, 0) + 1
    return found


def _order_counts(counts: dict[str, int], order: Sequence[str]) -> list[tuple[str, float]]:
    known = [name for name in order if name in counts]
    return [(name, float(counts[name])) for name in [*known, *sorted(set(counts) - set(known))]]


# Causes, and what people must see to


def _render_root_causes(facts: ReportFacts) -> str:
    cards = "".join(_render_root_cause(facts, cause) for cause in list_dicts(facts.status["clusters"]))
    return f'<div class="cards">{cards}</div>' if cards else ""


def _render_root_cause(facts: ReportFacts, cause: dict[str, Any]) -> str:
    held = next((row for row in facts.status["held"] if row["cause"] == cause.get("id")), None)
    tries = [one for one in facts.tasks if one.status_row["cluster"] == cause.get("id")]
    repaired = {row["by"] for row in facts.rows_by_type.get("base", [])} & {one.slug for one in tries}
    end = "held" if held else "repaired" if repaired else "open"
    evidence = cause.get("signature")
    shared = "".join(
        f"<dt>{escape_long(key)}</dt><dd><code>{escape_long(value, 500)}</code></dd>"
        for key, value in (evidence.items() if isinstance(evidence, dict) else ())
        if value
    )
    names = cause.get("tests") or []
    tests = "".join(f"<li><code>{escape_plain(name, 300)}</code></li>" for name in names[:500])
    who = " ".join(f'<a href="tasks/{escape_plain(one.slug)}.html">{render_chip(one.outcome)}</a>' for one in tries)
    why = f'<p class="quiet">{escape_long(held["why"], 500)}</p>' if held else ""
    return (
        f'<div class="card"><p>{render_chip(end)} <b>{len(names)} tests</b> {who}</p><p>{escape_long(cause.get("title"), 500)}</p>{why}'
        f'<dl>{shared}</dl><details><summary>its tests</summary><ul class="plain">{tests}</ul></details></div>'
    )


def _render_escalations(tasks: Sequence[ReportTask]) -> str:
    groups: dict[tuple[str, str], list[tuple[ReportTask, dict[str, Any]]]] = {}
    for one in tasks:
        for row in list_dicts(one.state.claim.get("escalations")):
            groups.setdefault((str(row.get("kind")), str(row.get("title"))), []).append((one, row))
    rows = []
    for (kind, title), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        who = ", ".join(
            f'<a href="tasks/{escape_plain(one.slug)}.html">{escape_plain(one.title.rpartition("::")[2], 80)}</a>'
            for one, _ in some[:_MAX_LISTED]
        )
        more = f" and {len(some) - _MAX_LISTED} more" if len(some) > _MAX_LISTED else ""
        detail = some[0][1].get("detail")
        body = f"<pre>{escape_long(detail, 4000)}</pre>" if detail else ""
        rows.append(
            f"<details><summary>{render_chip(kind)} <b>{len(some)}×</b> {escape_plain(title, 300)}</summary><p>{who}{more}</p>{body}</details>"
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


# The table


def _render_task_table(facts: ReportFacts) -> str:
    if not facts.tasks:
        return '<p class="quiet">There are none yet.</p>'
    names = ("", "task", "claimed", "seen", "found", "kinds", "time", "tokens", "cost")
    head = "".join(
        f'<th><button type="button" data-at="{at}">{name or "state"}</button></th>' for at, name in enumerate(names)
    )
    rows = "".join(_render_task_row(one) for one in facts.tasks)
    kinds = sorted(
        {kind for one in facts.tasks for kind in one.change_kinds} | {_build_sort_key(one) for one in facts.tasks}
    )
    picks = (
        _render_filter(
            "outcome",
            [name for name, _ in _order_counts(_count_words(one.outcome for one in facts.tasks), WORST_FIRST)],
        )
        + _render_filter(
            "verdict",
            [
                name
                for name, _ in _order_counts(
                    _count_words(str(one.status_row["verdict"] or "none") for one in facts.tasks), VERDICTS
                )
            ],
        )
        + _render_filter("kind", kinds)
    )
    bar_ = (
        f'<div class="filter"><input id="search" type="search" placeholder="find a task, an agent, a reason   /" aria-label="find">{picks}'
        '<button id="clear" type="button">all</button></div>'
    )
    return f'{bar_}<div class="scroll"><table id="tasks-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _render_filter(name: str, values: Sequence[str]) -> str:
    options = "".join(
        f'<option value="{escape_plain(value, 60)}">{escape_plain(value, 60)}</option>' for value in values
    )
    return f'<select id="by-{name}" aria-label="{name}"><option value="">any {name}</option>{options}</select>'


def _build_sort_key(one: ReportTask) -> str:
    return str(one.state.task.data.get("kind") or "task")


def _render_task_row(one: ReportTask) -> str:
    row = one.status_row
    levels = _count_words(str(found.get("level")) for found in one.findings)
    found = " ".join(render_chip(level, f"{count} {level}") for level, count in levels.items())
    used = count_tokens(row["usage"])
    cost = (row["usage"] or {}).get("cost_usd")
    summary = one.state.claim.get("summary")
    said = str(row["reason"] or summary or one.state.task.data.get("about") or "").strip("- \n")
    data = f'data-outcome="{escape_plain(one.outcome, 60)}" data-verdict="{escape_plain(row["verdict"] or "none", 60)}" data-kinds="{escape_plain(" ".join([*one.change_kinds, _build_sort_key(one)]), 300)}"'
    kinds = " ".join(f'<span class="kind">{escape_plain(kind, 40)}</span>' for kind in one.change_kinds)
    path, _, name = one.title.rpartition("::")
    where = f'<span class="quiet">{escape_plain(path, 200)}</span>' if path else ""
    again = f' <span class="quiet">try {one.state.attempt}</span>' if one.state.attempt > 1 else ""
    return (
        f'<tr data-slug="{escape_plain(one.slug)}" {data}><td>{render_chip(one.outcome)}</td>'
        f'<td><a href="tasks/{escape_plain(one.slug)}.html"><b>{escape_plain(name, 200)}</b></a> {where}{again}<p class="why">{escape_plain(said, 240)}</p></td>'
        f"<td>{render_chip(row['claimed'])}</td><td>{render_chip(row['verdict'])}</td><td>{found}</td><td>{kinds}</td>"
        f'<td data-n="{row["seconds"] or 0}">{format_duration(row["seconds"])}</td><td data-n="{used}">{format_count(used) if used else ""}</td>'
        f'<td data-n="{cost or 0}">{format_dollars(cost) if row["usage"] else ""}</td></tr>'
    )
