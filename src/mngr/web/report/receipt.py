"""Renders the claim of a task, and the receipt for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mngr.tmr.finding import LEVELS
from mngr.web.html_text import escape_long, escape_plain, format_duration, render_chip, to_class_name
from mngr.web.report.report_data import ReportTask, list_dicts

_MAX_ROWS = 200  # The most rows of one kind.


def render_claim(task: ReportTask) -> str:
    """Return the claim of a task's agent."""
    claim = task.state.claim
    if not claim:
        return '<p class="quiet">Nothing was claimed.</p>'
    parts = [f"<p>{render_chip(claim.get('outcome'))} {_describe_outcome_change(claim)}</p>"]
    for key in ("closed", "problem"):
        if claim.get(key):
            parts.append(f'<p class="note">{escape_long(claim[key], 2000)}</p>')
    if claim.get("summary"):
        parts.append(f'<pre class="said">{escape_long(claim["summary"])}</pre>')
    changes = "".join(
        f'<li><span class="kind">{escape_plain(row.get("kind"), 40)}</span> {escape_long(str(row.get("summary") or "").removeprefix("- "), 2000)} {_render_commits(row.get("commits"))}</li>'
        for row in list_dicts(claim.get("changes"))[:_MAX_ROWS]
    )
    parts.append(_render_part("Changes", f'<ul class="plain">{changes}</ul>' if changes else ""))
    parts.append(
        _render_part(
            "For people",
            "".join(_render_escalation(row) for row in list_dicts(claim.get("escalations"))[:_MAX_ROWS]),
        )
    )
    runs = "".join(
        f"<li><code>{escape_plain(row.get('name'), 200)}</code> {escape_long(row.get('description'), 2000)}</li>"
        for row in list_dicts(claim.get("runs"))[:_MAX_ROWS]
    )
    parts.append(_render_part("Runs it tells of", f'<ul class="plain">{runs}</ul>' if runs else ""))
    return "".join(parts)


def _describe_outcome_change(claim: Mapping[str, Any]) -> str:
    """Return the claimed result before and after the change."""
    before, after = claim.get("before"), claim.get("after")
    return f'<span class="quiet">{render_chip(before)} → {render_chip(after)}</span>' if before and after else ""


def _render_commits(names: Any) -> str:
    short_names = [str(name)[:10] for name in names] if isinstance(names, list | tuple) else []
    return " ".join(f"<code>{escape_long(name)}</code>" for name in short_names[:20])


def _render_escalation(row: dict[str, Any]) -> str:
    locations = " ".join(
        f"<code>{escape_plain(_format_location(location), 200)}</code>"
        for location in list_dicts(row.get("locations"))[:20]
    )
    detail = f"<pre>{escape_long(row.get('detail'))}</pre>" if row.get("detail") else ""
    return f"<details><summary>{render_chip(row.get('kind'))} {escape_plain(row.get('title'), 300)}</summary><p>{locations}</p>{detail}</details>"


def render_receipt(task: ReportTask) -> str:
    """Return the receipt of a task: everything that mngr saw when it re-ran the claim."""
    receipt = task.receipt
    if not receipt:
        note = (
            "There is none yet."
            if task.status_row["outcome"] is None
            else "There is none: nobody claims that it passes."
        )
        return f'<p class="quiet">{note}</p>'
    rate = f", {receipt['rate']:.0%} of the runs failed" if isinstance(receipt.get("rate"), float) else ""
    parts = [
        f"<p>{render_chip(receipt.get('verdict'))} {escape_long(receipt.get('reason'), 3000)}{rate}</p>",
        _render_part("Runs", _render_runs(list_dicts(receipt.get("results")))),
        _render_part("Witnesses", _render_affected_tests(list_dicts(receipt.get("witnesses")))),
        _render_part("Red and green", _render_proofs(list_dicts(receipt.get("proofs")))),
        _render_part("Found", render_findings(task.findings)),
        _render_part("Faults put into the code", _render_mutations(receipt.get("mutation"))),
        _render_part("Without the program", _render_audit(receipt.get("audit"))),
        _render_clean_room(receipt),
    ]
    return "".join(parts)


def _render_runs(rows: Sequence[dict[str, Any]]) -> str:
    """Return a light for each run, and the reason of the first failure."""
    lights = "".join(
        f'<span class="light {to_class_name(row.get("outcome"))}" title="{escape_plain(row.get("outcome"), 40)}, exit code {escape_plain(row.get("exit_code"), 20)}">'
        f"{_format_seconds(row)}</span>"
        for row in rows[:_MAX_ROWS]
    )
    failed_run = next((row for row in rows if row.get("outcome") != "pass"), None)
    reason = f'<p class="why">{escape_long(failed_run.get("why"), 2000)}</p>' if failed_run else ""
    if failed_run and failed_run.get("text"):
        reason += f'<details><summary>what pytest said</summary><pre class="failure">{escape_long(failed_run["text"])}</pre></details>'
    return f'<div class="lights">{lights}</div>{reason}' if rows else ""


def _format_seconds(row: dict[str, Any]) -> str:
    seconds = row.get("seconds")
    return format_duration(seconds) if isinstance(seconds, int | float) else ""


def _render_affected_tests(rows: Sequence[dict[str, Any]]) -> str:
    by_test: dict[str, list[dict[str, Any]]] = {}
    for row in rows[: 10 * _MAX_ROWS]:
        by_test.setdefault(str(row.get("test")), []).append(row)
    return "".join(
        f'<div class="witness"><code>{escape_plain(name, 300)}</code>{_render_runs(runs)}</div>'
        for name, runs in by_test.items()
    )


def _render_proofs(rows: Sequence[dict[str, Any]]) -> str:
    """Return each fix with the result before it, with it, and without it."""
    return "".join(_render_proof(row) for row in rows[:_MAX_ROWS])


def _render_proof(row: dict[str, Any]) -> str:
    is_needed, is_same_reason = row.get("is_needed"), row.get("is_same_reason")
    conclusion = "unproven" if is_needed is None else "needed" if is_needed else "not needed"
    reason = "" if is_same_reason is None else "for the same reason" if is_same_reason else "for another reason"
    commits = " ".join(f"<code>{escape_plain(str(fix)[:10])}</code>" for fix in row.get("fixes") or ())
    reasons = "".join(
        f'<p class="why">{name}: {escape_long(row[key], 1000)}</p>'
        for name, key in (("before", "before_why"), ("without it", "without_why"), ("", "reason"))
        if row.get(key)
    )
    return (
        f'<div class="proof"><p>{commits} {escape_plain(row.get("subject"), 300)}</p><p class="steps">'
        f"<span>before {render_chip(row.get('before') or '?')}</span><span>with it {render_chip('pass')}</span>"
        f"<span>without it {render_chip(row.get('without') or '?')}</span><b>{conclusion}</b> "
        f'<span class="quiet">{reason}</span></p>{reasons}</div>'
    )


def _format_location(row: Mapping[str, Any]) -> str:
    return f"{row.get('path') or ''}{':' + str(row['line']) if row.get('line') else ''}"


def render_findings(rows: Sequence[dict[str, Any]]) -> str:
    """Return the findings on an edit, the worst first, each with its location and lines."""
    rank = {level: index for index, level in enumerate(LEVELS)}
    items = ""
    rows = list({json.dumps(row, sort_keys=True, default=str): row for row in rows}.values())
    for row in sorted(rows, key=lambda row: rank.get(str(row.get("level")), len(rank)))[:_MAX_ROWS]:
        is_same = row.get("old") == row.get("new")
        sides = (("old", "same", " "),) if is_same else (("old", "gone", "−"), ("new", "come", "+"))
        lines = "".join(
            f'<div class="{kind}">{mark}{escape_long(row[key], 2000)}</div>'
            for key, kind, mark in sides
            if row.get(key)
        )
        items += (
            f'<li class="finding {to_class_name(row.get("level"))}"><p>{render_chip(row.get("level"))} <code>{escape_plain(_format_location(row), 300)}</code> '
            f'<span class="quiet">{escape_plain(row.get("rule"), 60)}</span></p><p>{escape_long(row.get("what"), 2000)}</p>'
            f'{f"""<div class="diff">{lines}</div>""" if lines else ""}</li>'
        )
    more = f'<li class="quiet">and {len(rows) - _MAX_ROWS} more</li>' if len(rows) > _MAX_ROWS else ""
    return f'<ul class="plain">{items}{more}</ul>' if items else ""


def _render_mutations(mutation: Any) -> str:
    if not isinstance(mutation, dict):
        return ""
    trials = list_dicts(mutation.get("trials"))
    caught = sum(row.get("new") == "caught" for row in trials)
    html = (
        f"<p>{caught} of {len(trials)} are caught</p>"
        if trials
        else f'<p class="quiet">{escape_long(mutation.get("state"))}: {escape_long(mutation.get("reason"), 500)}</p>'
    )
    for name, key in (("newly missed", "newly_missed"), ("newly caught", "newly_caught")):
        rows = "".join(
            f"<li>{render_chip(name)} <code>{escape_plain(row.get('path'), 300)}:{escape_plain(row.get('line'), 20)}</code> "
            f'<span class="quiet">{escape_plain(row.get("kind"), 60)}</span><div class="diff"><div class="gone">−{escape_long(row.get("before"), 500)}</div>'
            f'<div class="come">+{escape_long(row.get("after"), 500)}</div></div></li>'
            for row in list_dicts(mutation.get(key))[:_MAX_ROWS]
        )
        html += f'<ul class="plain">{rows}</ul>' if rows else ""
    return html


def _render_audit(audit: Any) -> str:
    if not isinstance(audit, dict):
        return ""
    gaps = "".join(
        f"<li>{escape_plain(row.get('rule'), 60)}: {escape_long(row.get('what') or row.get('why'), 1000)}</li>"
        for row in list_dicts(audit.get("holes"))[:_MAX_ROWS]
    )
    return f"<p>{render_chip(audit.get('outcome'))} {escape_long(audit.get('why'), 1000)}</p>" + (
        f'<ul class="plain">{gaps}</ul>' if gaps else ""
    )


def _render_clean_room(receipt: Mapping[str, Any]) -> str:
    """Return how mngr ran the tests, so that anybody can repeat it."""
    command = receipt.get("command")
    facts: dict[str, Any] = {
        "walls": receipt.get("room"), "level": receipt.get("level"), "commit": receipt.get("commit"), "base": receipt.get("base"), "tree": receipt.get("tree"),
        "command": " ".join(map(str, command)) if isinstance(command, list) else None, "seed": receipt.get("seed"),
    }  # fmt: skip
    for key in ("imported_from", "environment", "hashes"):
        values = receipt.get(key)
        facts |= (
            {f"{key.replace('_', ' ')}: {name}": value for name, value in values.items()}
            if isinstance(values, dict)
            else {}
        )
    rows = "".join(
        f"<dt>{escape_plain(key, 100)}</dt><dd><code>{escape_long(value, 500)}</code></dd>"
        for key, value in facts.items()
        if value not in (None, "")
    )
    return f"<details><summary>how it was run</summary><dl>{rows}</dl></details>"


def _render_part(title: str, body: str) -> str:
    return f"<h3>{title}</h3>{body}" if body else ""
