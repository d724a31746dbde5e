"""The claim of a task beside the receipt for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mngr.tmr.finding import LEVELS
from mngr.web.report.facts import One, rows_of
from mngr.web.text import chip, lasting, plain, shown, word

_MOST = 200  # rows of one kind


def claim(one: One) -> str:
    """What its agent says."""
    said = one.state.claim
    if not said:
        return '<p class="quiet">Nothing was claimed.</p>'
    parts = [f"<p>{chip(said.get('outcome'))} {_turn(said)}</p>"]
    for key in ("closed", "problem"):
        if said.get(key):
            parts.append(f'<p class="note">{shown(said[key], 2000)}</p>')
    if said.get("summary"):
        parts.append(f'<pre class="said">{shown(said["summary"])}</pre>')
    changes = "".join(
        f'<li><span class="kind">{plain(row.get("kind"), 40)}</span> {shown(str(row.get("summary") or "").removeprefix("- "), 2000)} {_commits(row.get("commits"))}</li>'
        for row in rows_of(said.get("changes"))[:_MOST]
    )
    parts.append(_part("Changes", f'<ul class="plain">{changes}</ul>' if changes else ""))
    parts.append(
        _part("For people", "".join(_escalation(row) for row in rows_of(said.get("escalations"))[:_MOST]))
    )
    runs = "".join(
        f"<li><code>{plain(row.get('name'), 200)}</code> {shown(row.get('description'), 2000)}</li>"
        for row in rows_of(said.get("runs"))[:_MOST]
    )
    parts.append(_part("Runs it tells of", f'<ul class="plain">{runs}</ul>' if runs else ""))
    return "".join(parts)


def _turn(said: Mapping[str, Any]) -> str:
    before, after = said.get("before"), said.get("after")
    return f'<span class="quiet">{chip(before)} → {chip(after)}</span>' if before and after else ""


def _commits(names: Any) -> str:
    some = [str(name)[:10] for name in names] if isinstance(names, list | tuple) else []
    return " ".join(f"<code>{shown(name)}</code>" for name in some[:20])


def _escalation(row: dict[str, Any]) -> str:
    where = " ".join(f"<code>{plain(_place(at), 200)}</code>" for at in rows_of(row.get("locations"))[:20])
    detail = f"<pre>{shown(row.get('detail'))}</pre>" if row.get("detail") else ""
    return f"<details><summary>{chip(row.get('kind'))} {plain(row.get('title'), 300)}</summary><p>{where}</p>{detail}</details>"


def receipt(one: One) -> str:
    """What we saw."""
    seen = one.check
    if not seen:
        word_ = (
            "There is none yet."
            if one.row["outcome"] is None
            else "There is none: nobody claims that it passes."
        )
        return f'<p class="quiet">{word_}</p>'
    rate = f", {seen['rate']:.0%} of the runs failed" if isinstance(seen.get("rate"), float) else ""
    parts = [
        f"<p>{chip(seen.get('verdict'))} {shown(seen.get('reason'), 3000)}{rate}</p>",
        _part("Runs", _runs(rows_of(seen.get("results")))),
        _part("Witnesses", _witnesses(rows_of(seen.get("witnesses")))),
        _part("Red and green", _proofs(rows_of(seen.get("proofs")))),
        _part("Found", findings(one.findings)),
        _part("Faults put into the code", _faults(seen.get("mutation"))),
        _part("Without the program", _audit(seen.get("audit"))),
        _room(seen),
    ]
    return "".join(parts)


def _runs(rows: Sequence[dict[str, Any]]) -> str:
    """A light for each run; what failed says why."""
    lights = "".join(
        f'<span class="light {word(row.get("outcome"))}" title="{plain(row.get("outcome"), 40)}, exit code {plain(row.get("exit_code"), 20)}">'
        f"{_seconds(row)}</span>"
        for row in rows[:_MOST]
    )
    bad = next((row for row in rows if row.get("outcome") != "pass"), None)
    why = f'<p class="why">{shown(bad.get("why"), 2000)}</p>' if bad else ""
    if bad and bad.get("text"):
        why += f'<details><summary>what pytest said</summary><pre class="failure">{shown(bad["text"])}</pre></details>'
    return f'<div class="lights">{lights}</div>{why}' if rows else ""


def _seconds(row: dict[str, Any]) -> str:
    spent = row.get("seconds")
    return lasting(spent) if isinstance(spent, int | float) else ""


def _witnesses(rows: Sequence[dict[str, Any]]) -> str:
    by_test: dict[str, list[dict[str, Any]]] = {}
    for row in rows[: 10 * _MOST]:
        by_test.setdefault(str(row.get("test")), []).append(row)
    return "".join(
        f'<div class="witness"><code>{plain(name, 300)}</code>{_runs(some)}</div>'
        for name, some in by_test.items()
    )


def _proofs(rows: Sequence[dict[str, Any]]) -> str:
    """Each fix: how it was before, how it is, how it is again without it."""
    return "".join(_proof(row) for row in rows[:_MOST])


def _proof(row: dict[str, Any]) -> str:
    needed, same = row.get("is_needed"), row.get("is_same_reason")
    said = "unproven" if needed is None else "needed" if needed else "not needed"
    reason = "" if same is None else "for the same reason" if same else "for another reason"
    names = " ".join(f"<code>{plain(str(fix)[:10])}</code>" for fix in row.get("fixes") or ())
    whys = "".join(
        f'<p class="why">{name}: {shown(row[key], 1000)}</p>'
        for name, key in (("before", "before_why"), ("without it", "without_why"), ("", "reason"))
        if row.get(key)
    )
    return (
        f'<div class="proof"><p>{names} {plain(row.get("subject"), 300)}</p><p class="steps">'
        f"<span>before {chip(row.get('before') or '?')}</span><span>with it {chip('pass')}</span>"
        f"<span>without it {chip(row.get('without') or '?')}</span><b>{said}</b> "
        f'<span class="quiet">{reason}</span></p>{whys}</div>'
    )


def _place(row: Mapping[str, Any]) -> str:
    return f"{row.get('path') or ''}{':' + str(row['line']) if row.get('line') else ''}"


def findings(rows: Sequence[dict[str, Any]]) -> str:
    """What was found about an edit, the worst first, each with its place and the lines it is about."""
    rank = {level: at for at, level in enumerate(LEVELS)}
    items = ""
    rows = list({json.dumps(row, sort_keys=True, default=str): row for row in rows}.values())
    for row in sorted(rows, key=lambda row: rank.get(str(row.get("level")), len(rank)))[:_MOST]:
        is_same = row.get("old") == row.get("new")
        both = (("old", "same", " "),) if is_same else (("old", "gone", "−"), ("new", "come", "+"))
        lines = "".join(
            f'<div class="{kind}">{mark}{shown(row[key], 2000)}</div>'
            for key, kind, mark in both
            if row.get(key)
        )
        items += (
            f'<li class="finding {word(row.get("level"))}"><p>{chip(row.get("level"))} <code>{plain(_place(row), 300)}</code> '
            f'<span class="quiet">{plain(row.get("rule"), 60)}</span></p><p>{shown(row.get("what"), 2000)}</p>'
            f'{f"""<div class="diff">{lines}</div>""" if lines else ""}</li>'
        )
    over = f'<li class="quiet">and {len(rows) - _MOST} more</li>' if len(rows) > _MOST else ""
    return f'<ul class="plain">{items}{over}</ul>' if items else ""


def _faults(seen: Any) -> str:
    if not isinstance(seen, dict):
        return ""
    trials = rows_of(seen.get("trials"))
    caught = sum(row.get("new") == "caught" for row in trials)
    about = (
        f"<p>{caught} of {len(trials)} are caught</p>"
        if trials
        else f'<p class="quiet">{shown(seen.get("state"))}: {shown(seen.get("reason"), 500)}</p>'
    )
    for name, key in (("newly missed", "newly_missed"), ("newly caught", "newly_caught")):
        rows = "".join(
            f"<li>{chip(name)} <code>{plain(row.get('path'), 300)}:{plain(row.get('line'), 20)}</code> "
            f'<span class="quiet">{plain(row.get("kind"), 60)}</span><div class="diff"><div class="gone">−{shown(row.get("before"), 500)}</div>'
            f'<div class="come">+{shown(row.get("after"), 500)}</div></div></li>'
            for row in rows_of(seen.get(key))[:_MOST]
        )
        about += f'<ul class="plain">{rows}</ul>' if rows else ""
    return about


def _audit(seen: Any) -> str:
    if not isinstance(seen, dict):
        return ""
    holes = "".join(
        f"<li>{plain(row.get('rule'), 60)}: {shown(row.get('what') or row.get('why'), 1000)}</li>"
        for row in rows_of(seen.get("holes"))[:_MOST]
    )
    return f"<p>{chip(seen.get('outcome'))} {shown(seen.get('why'), 1000)}</p>" + (
        f'<ul class="plain">{holes}</ul>' if holes else ""
    )


def _room(seen: Mapping[str, Any]) -> str:
    """How it was run, so that anybody can do it again."""
    command = seen.get("command")
    facts: dict[str, Any] = {
        "walls": seen.get("room"), "level": seen.get("level"), "commit": seen.get("commit"), "base": seen.get("base"), "tree": seen.get("tree"),
        "command": " ".join(map(str, command)) if isinstance(command, list) else None, "seed": seen.get("seed"),
    }  # fmt: skip
    for key in ("imported_from", "environment", "hashes"):
        more = seen.get(key)
        facts |= (
            {f"{key.replace('_', ' ')}: {name}": value for name, value in more.items()}
            if isinstance(more, dict)
            else {}
        )
    rows = "".join(
        f"<dt>{plain(key, 100)}</dt><dd><code>{shown(value, 500)}</code></dd>"
        for key, value in facts.items()
        if value not in (None, "")
    )
    return f"<details><summary>how it was run</summary><dl>{rows}</dl></details>"


def _part(title: str, body: str) -> str:
    return f"<h3>{title}</h3>{body}" if body else ""
