"""The first page of a report: how a run stands, and every task in one table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mngr.tmr.verify.receipt import VERDICTS
from mngr.web import pages
from mngr.web.report.facts import WORST, Facts, One, rows_of
from mngr.web.report.integration import integration
from mngr.web.report.timeline import timeline
from mngr.web.text import chip, lasting, money, plain, shown, size, tokens, word

_LISTED = 30  # entries of a list that are shown at once


def index_page(facts: Facts) -> str:
    """The page."""
    parts = [
        _head(facts),
        _tiles(facts),
        section("Integration", _card(integration(facts))),
        section("Timeline", timeline(facts), "all agents, from the first test to the last receipt"),
        section("Shared causes", _causes(facts), "tests that failed alike, and who repaired it"),
        section("For people", _escalations(facts.tasks), "what agents cannot decide"),
        section("Tasks", _table(facts), f'<span id="shown">{len(facts.tasks)}</span> of {len(facts.tasks)}'),
        section("Left out", _skipped(facts)),
    ]
    return report_page(facts.run.name, "".join(parts), "", live=facts.is_live)


def report_page(title: str, body: str, up: str, *, live: bool, plays: bool = False, of: str = "") -> str:
    """A page of a report around a body; one that is `live` loads itself again now and then."""
    again = '<noscript><meta http-equiv="refresh" content="20"></noscript>' if live else ""
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><meta name="color-scheme" content="light dark">'
        f'<meta name="mngr-of" content="{of}">{again}<script src="{up}static/theme.js"></script>'
        f'<link rel="stylesheet" href="{up}static/report.css"><script defer src="{up}static/report.js"></script>'
    )
    toggle = '<button id="theme" type="button" title="light or dark" aria-label="light or dark">◐</button>'
    inside = f'<div class="report"{" data-live" if live else ""}>{toggle}{body}</div>'
    return pages.page(title[:200], inside, up, plays=plays, head=head)


_POLICY = (
    "default-src 'none'; script-src 'self' file: 'wasm-unsafe-eval'; style-src 'self' file: 'unsafe-inline'; img-src data:; "
    "font-src data:; connect-src data: blob:; worker-src blob:; form-action 'none'; base-uri 'none'"
)


def section(title: str, body: str, about: str = "") -> str:
    """A part with a heading; nothing where there is nothing to show."""
    more = f'<span class="about">{about}</span>' if about else ""
    name = title.lower().replace(" ", "-")
    return f'<section class="part" id="{name}"><h2>{title}{more}</h2>{body}</section>' if body else ""


def _card(body: str) -> str:
    return f'<div class="card">{body}</div>' if body else ""


def _head(facts: Facts) -> str:
    found = facts.status
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(facts.began))
    about = [began, lasting(facts.until - facts.began)]
    if facts.plan.get("agent"):
        about.append(f"by {plain(facts.plan['agent'], 60)}")
    if facts.plan.get("base"):
        about.append(f"on <code>{shown(str(facts.plan['base'])[:10])}</code>")
    alarm = f'<p class="alarm">{shown(found["alarm"], 500)}</p>' if found["alarm"] else ""
    alerts = rows_of(found["alerts"])
    told = "".join(
        f"<li><time>{shown(row['at'][11:19])}</time> {shown(row['text'], 500)}</li>" for row in alerts[-100:]
    )
    heard = (
        f'<details class="alerts"><summary>{len(alerts)} alerts</summary><ul>{told}</ul></details>'
        if told
        else ""
    )
    return (
        f'<header><p class="way">a run of mngr</p><h1>{shown(facts.run.name)} {chip(found["state"])}</h1>'
        f'<p class="quiet">{" · ".join(about)}</p>{alarm}{heard}</header>'
    )


# The tiles


def _tiles(facts: Facts) -> str:
    outcomes = _count(one.word for one in facts.tasks)
    tiles = [_tile(str(len(facts.tasks)), "tasks", _bar(_ordered(outcomes, WORST)))]
    if facts.plan.get("kind") != "map":  # which knows of no tests, and of no receipts
        verdicts = _count(str(one.row["verdict"] or "none") for one in facts.tasks)
        more = _strip(_ordered(verdicts, VERDICTS)) + _matrix(facts.tasks)
        tiles.append(_tile(*_standing(facts)))
        tiles.append(_tile(str(verdicts.get("confirmed", 0)), "confirmed by us", more, "wide"))
    tiles += [_tile(*_spent(facts)), _tile(*_time(facts))]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _tile(number: str, what: str, more: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><p><b>{number}</b> {what}</p>{more}</div>'


def _strip(parts: Sequence[tuple[str, float]]) -> str:
    """Shares of a whole, one beside the other."""
    whole = sum(number for _, number in parts) or 1.0
    return (
        '<div class="bar">'
        + "".join(
            f'<i class="{word(name)}" title="{number:g} {plain(name, 60)}" style="flex:{number / whole:.4f}"></i>'
            for name, number in parts
            if number
        )
        + "</div>"
    )


def _bar(parts: Sequence[tuple[str, float]], label: Callable[[str, float], str] | None = None) -> str:
    """The same with their names."""
    names = "".join(
        f'<span class="{word(name)}"><i></i>{plain(label(name, number) if label else f"{number:g} {name}", 200)}</span>'
        for name, number in parts
    )
    return f'{_strip(parts)}<div class="key">{names}</div>' if parts else ""


def _standing(facts: Facts) -> tuple[str, str, str]:
    rows = facts.facts.get("standing")
    if not rows:
        ran = len(facts.facts.get("ran", []))
        return str(ran), "runs of untouched tests", ""
    row = rows[-1]
    parts = [
        (name, float(row["counts"].get(name, 0)))
        for name in ("fail", "flaky", "pass")
        if row["counts"].get(name)
    ]
    return str(row["tests"]), "tests, untouched", _bar(parts)


def _spent(facts: Facts) -> tuple[str, str, str]:
    budget = facts.status["budget"]
    spend = sorted(budget["spend"].items(), key=lambda item: -tokens(item[1]))
    costs = {kind: money(used.get("cost_usd")) for kind, used in spend}
    parts = [(kind, float(tokens(used))) for kind, used in spend if tokens(used)]
    said = [f"{size(tokens(budget))} tokens" if tokens(budget) else "no tokens were used"]
    if budget.get("before_edit"):
        said.append(f"{size(budget['before_edit'])} before the first edit of each")
    rented = budget.get("hosts") or {}
    if rented.get("made"):
        price = "" if rented["cost_usd"] is None else f", {money(rented['cost_usd'])}"
        said.append(f"{rented['hours']:.2f} host-hours on {rented['made']} hosts{price}")
    more = _bar(parts, lambda kind, number: f"{kind} {size(number)}, {costs[kind]}")
    return money(budget.get("cost_usd")), "spent", f'{more}<p class="quiet">{" · ".join(said)}</p>'


def _time(facts: Facts) -> tuple[str, str, str]:
    """How long it took, and how many worked side by side."""
    at_work = [span for one in facts.tasks for span in one.spans if span.state not in ("queued", "parked")]
    moves = sorted([(span.begin, 1) for span in at_work] + [(span.end, -1) for span in at_work])
    most = now = 0
    for _, change in moves:
        now += change
        most = max(most, now)
    whole = sum(span.end - span.begin for span in at_work)
    said = (
        f"{most} at once at most; {lasting(whole)} if they had come one after the other"
        if at_work
        else "no agent yet"
    )
    return lasting(facts.until - facts.began), "in all", f'<p class="quiet">{said}</p>'


def _matrix(tasks: Sequence[One]) -> str:
    """What was claimed against what we saw."""
    claims = _ordered(
        _count(str(one.row["claimed"] or "nothing") for one in tasks),
        ("fixed", "improved", "unchanged", "blocked", "failed"),
    )
    seen = _ordered(_count(str(one.row["verdict"] or "none") for one in tasks), VERDICTS)
    pairs = _count(f"{one.row['claimed'] or 'nothing'}\0{one.row['verdict'] or 'none'}" for one in tasks)
    head = "".join(f"<th>{chip(name)}</th>" for name, _ in seen)
    body = ""
    for claim, _ in claims:
        cells = [pairs.get(f"{claim}\0{name}", 0) for name, _ in seen]
        body += f"<tr><th>{chip(claim)}</th>" + "".join(
            f'<td class="{word(name)}{"" if n else " none"}">{n or "·"}</td>'
            for n, (name, _) in zip(cells, seen, strict=True)
        )
    return f'<table class="matrix"><tr><td class="quiet">claimed ↓ seen →</td>{head}</tr>{body}</table>'


def _count(words: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in words:
        found[one] = found.get(one, 0) + 1
    return found


def _ordered(counts: dict[str, int], order: Sequence[str]) -> list[tuple[str, float]]:
    known = [name for name in order if name in counts]
    return [(name, float(counts[name])) for name in [*known, *sorted(set(counts) - set(known))]]


# Causes, and what people must see to


def _causes(facts: Facts) -> str:
    cards = "".join(_cause(facts, cause) for cause in rows_of(facts.status["clusters"]))
    return f'<div class="cards">{cards}</div>' if cards else ""


def _cause(facts: Facts, cause: dict[str, Any]) -> str:
    held = next((row for row in facts.status["held"] if row["cause"] == cause.get("id")), None)
    tries = [one for one in facts.tasks if one.row["cluster"] == cause.get("id")]
    repaired = {row["by"] for row in facts.facts.get("base", [])} & {one.slug for one in tries}
    end = "held" if held else "repaired" if repaired else "open"
    evidence = cause.get("signature")
    shared = "".join(
        f"<dt>{shown(key)}</dt><dd><code>{shown(value, 500)}</code></dd>"
        for key, value in (evidence.items() if isinstance(evidence, dict) else ())
        if value
    )
    names = cause.get("tests") or []
    tests = "".join(f"<li><code>{plain(name, 300)}</code></li>" for name in names[:500])
    who = " ".join(f'<a href="tasks/{plain(one.slug)}.html">{chip(one.word)}</a>' for one in tries)
    why = f'<p class="quiet">{shown(held["why"], 500)}</p>' if held else ""
    return (
        f'<div class="card"><p>{chip(end)} <b>{len(names)} tests</b> {who}</p><p>{shown(cause.get("title"), 500)}</p>{why}'
        f'<dl>{shared}</dl><details><summary>its tests</summary><ul class="plain">{tests}</ul></details></div>'
    )


def _escalations(tasks: Sequence[One]) -> str:
    groups: dict[tuple[str, str], list[tuple[One, dict[str, Any]]]] = {}
    for one in tasks:
        for row in rows_of(one.state.claim.get("escalations")):
            groups.setdefault((str(row.get("kind")), str(row.get("title"))), []).append((one, row))
    rows = []
    for (kind, title), some in sorted(groups.items(), key=lambda item: -len(item[1])):
        who = ", ".join(
            f'<a href="tasks/{plain(one.slug)}.html">{plain(one.title.rpartition("::")[2], 80)}</a>'
            for one, _ in some[:_LISTED]
        )
        more = f" and {len(some) - _LISTED} more" if len(some) > _LISTED else ""
        detail = some[0][1].get("detail")
        body = f"<pre>{shown(detail, 4000)}</pre>" if detail else ""
        rows.append(
            f"<details><summary>{chip(kind)} <b>{len(some)}×</b> {plain(title, 300)}</summary><p>{who}{more}</p>{body}</details>"
        )
    return f'<div class="list">{"".join(rows)}</div>' if rows else ""


def _skipped(facts: Facts) -> str:
    rows = facts.status["skipped"]
    body = "".join(
        f"<li><code>{plain(row['test'], 300)}</code> {plain(row['why'], 300)}</li>" for row in rows[:1000]
    )
    return (
        f'<details><summary>{len(rows)} test{"s" * (len(rows) > 1)} that got no agent</summary><ul class="plain">{body}</ul></details>'
        if rows
        else ""
    )


# The table


def _table(facts: Facts) -> str:
    if not facts.tasks:
        return '<p class="quiet">There are none yet.</p>'
    names = ("", "task", "claimed", "seen", "found", "kinds", "time", "tokens", "cost")
    head = "".join(
        f'<th><button type="button" data-at="{at}">{name or "state"}</button></th>'
        for at, name in enumerate(names)
    )
    rows = "".join(_row(one) for one in facts.tasks)
    kinds = sorted({kind for one in facts.tasks for kind in one.kinds} | {_sort(one) for one in facts.tasks})
    picks = (
        _pick("outcome", [name for name, _ in _ordered(_count(one.word for one in facts.tasks), WORST)])
        + _pick(
            "verdict",
            [
                name
                for name, _ in _ordered(
                    _count(str(one.row["verdict"] or "none") for one in facts.tasks), VERDICTS
                )
            ],
        )
        + _pick("kind", kinds)
    )
    bar_ = (
        f'<div class="filter"><input id="search" type="search" placeholder="find a task, an agent, a reason   /" aria-label="find">{picks}'
        '<button id="clear" type="button">all</button></div>'
    )
    return f'{bar_}<div class="scroll"><table id="tasks-table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _pick(name: str, values: Sequence[str]) -> str:
    options = "".join(f'<option value="{plain(value, 60)}">{plain(value, 60)}</option>' for value in values)
    return (
        f'<select id="by-{name}" aria-label="{name}"><option value="">any {name}</option>{options}</select>'
    )


def _sort(one: One) -> str:
    return str(one.state.task.data.get("kind") or "task")


def _row(one: One) -> str:
    row = one.row
    levels = _count(str(found.get("level")) for found in one.findings)
    found = " ".join(chip(level, f"{count} {level}") for level, count in levels.items())
    used = tokens(row["usage"])
    cost = (row["usage"] or {}).get("cost_usd")
    summary = one.state.claim.get("summary")
    said = str(row["reason"] or summary or one.state.task.data.get("about") or "").strip("- \n")
    data = f'data-outcome="{plain(one.word, 60)}" data-verdict="{plain(row["verdict"] or "none", 60)}" data-kinds="{plain(" ".join([*one.kinds, _sort(one)]), 300)}"'
    kinds = " ".join(f'<span class="kind">{plain(kind, 40)}</span>' for kind in one.kinds)
    path, _, name = one.title.rpartition("::")
    where = f'<span class="quiet">{plain(path, 200)}</span>' if path else ""
    again = f' <span class="quiet">try {one.state.attempt}</span>' if one.state.attempt > 1 else ""
    return (
        f'<tr data-slug="{plain(one.slug)}" {data}><td>{chip(one.word)}</td>'
        f'<td><a href="tasks/{plain(one.slug)}.html"><b>{plain(name, 200)}</b></a> {where}{again}<p class="why">{plain(said, 240)}</p></td>'
        f"<td>{chip(row['claimed'])}</td><td>{chip(row['verdict'])}</td><td>{found}</td><td>{kinds}</td>"
        f'<td data-n="{row["seconds"] or 0}">{lasting(row["seconds"])}</td><td data-n="{used}">{size(used) if used else ""}</td>'
        f'<td data-n="{cost or 0}">{money(cost) if row["usage"] else ""}</td></tr>'
    )
