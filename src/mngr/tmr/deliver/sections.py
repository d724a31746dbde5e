"""The parts of a pull request that grow with it: each from all there is to tell (0) down to what must be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mngr.tmr.deliver.facts import PullRequestFacts
from mngr.tmr.deliver.markdown import (
    format_code,
    format_count,
    format_details,
    format_list,
    format_text,
    sort_known_first,
)

Row = dict[str, Any]


_EXCLUSION_TITLES = {
    "conflict": "In conflict with what is in",
    "breaks": "Turning other tests red",
    "redder": "Leaving the suite redder than before",
    "needs": "Building on what is not in",
    "wish": "Left out by wish",
    "already": "With nothing left to do",
}
_KIND = re.compile(r"^\[[A-Z_]{1,20}\]\s+(?=\S)")  # which the section says
_MAX_QUESTIONS = (30, 15, 5)  # questions to people, by level
_MAX_VISIBLE_LINES = 5  # lines that are shown without being asked for
_MAX_ITEMS = {4: 200, 5: 50, 6: 10}  # items, at levels where not all are named


# What is in the branch


def render_failing_tests(facts: PullRequestFacts, level: int = 0) -> str:
    """What is not well at the head."""
    rows = facts.integration.get("red") or []
    most = (40, 12)[min(level, 1)]
    failed = [row for row in facts.integration.get("checks") or () if not row["ok"] and row.get("was_ok", True)]
    lines = [
        f"- {format_text(row['name'], 30)}: {' '.join(filter(None, [format_code(row.get('command'), 120), format_code(_last_line(row.get('output')), 200)]))}"
        for row in failed[:10]
    ]
    lines += [
        f"- {format_code(row['test'], 160)}: {format_code(row.get('why'), (160, 60)[min(level, 1)])}"
        for row in rows[:most]
    ]
    return _render_section("Not well", lines, max(0, len(rows) - most), "tests")


def _last_line(said: object) -> str:
    return next((line for line in reversed(str(said or "").splitlines()) if line.strip()), "it says nothing")


def render_flagged(facts: PullRequestFacts, level: int = 0) -> str:
    """The edits that a person should look at, with what was found."""
    rows = facts.flagged
    shown = rows[: _MAX_ITEMS.get(level + 2, len(rows))]
    lines = []
    for commit, change in shown:
        lines.append(f"- {_format_change(change, commit, 100 if level == 0 else 40)}")
        noted = _list_findings(change, level)
        most = (8, 2, 1)[min(level, 2)]
        lines += [f"  - {line}" for line in noted[:most]]
        if len(noted) > most:
            lines.append(f"  - and {len(noted) - most} more")
    return _render_section("Look at these", lines, len(rows) - len(shown), "edits")


def _list_findings(change: Row, level: int) -> list[str]:
    """What was found of an edit; what reads the same is said once, with all its places."""
    places: dict[str, list[str]] = {}
    for row in change["findings"]:
        if row.get("level") == "justified":
            continue
        said = format_text(row["what"], (240, 100, 60)[min(level, 2)]) + (
            _format_line_change(row) if level == 0 else ""
        )
        at = f"{row['path']}:{row['line']}" if row.get("line") else row.get("path") or ""
        places[said] = [*places.get(said, []), *([at] if at and at not in places.get(said, []) else [])]
    return [f"{format_list(some, 3)}: {said}" if some else said for said, some in places.items()]


def _format_line_change(row: Row) -> str:
    """The line as it was and as it is, where that shows the difference."""
    old, new = format_code(row.get("old"), 100), format_code(row.get("new"), 100)
    return f": {old} → {new}" if old and new and old != new else f": {old}" if old and not new else ""


def render_fixes(facts: PullRequestFacts, level: int = 0) -> str:
    """Each fix of the implementation, in the order of the branch."""
    rows = [(commit, facts.get_change(name)) for commit in facts.list_commits("fix") for name in commit["changes"]]
    shown = rows[: _MAX_ITEMS.get(level, len(rows))]
    lines = [
        line for at, (commit, change) in enumerate(shown, 1) for line in _render_fix(facts, at, commit, change, level)
    ]
    return _render_section("Fixes, best first", lines, len(rows) - len(shown), "fixes")  # fmt: skip


def _render_fix(facts: PullRequestFacts, number: int, commit: Row, change: Row, level: int) -> list[str]:
    mark = f"{number}."
    tests = list(commit.get("turned") or change.get("turned") or ())
    if level >= 3:
        return [f"{mark} {_format_change(change, commit, 40)}"]
    if level == 2:
        return [
            f"{mark} {_format_change(change, commit, 60)} · {format_count(len(tests), 'test')} green · {_format_authors(change, 0)}"
        ]
    proof = _format_first_proof(facts, change, level)
    if level == 1:
        parts = [f"green: {format_list(tests, 1, 80)}" if tests else "", _format_authors(change, 0), proof]
        return [f"{mark} {_format_change(change, commit, 80)} · " + " · ".join(filter(None, parts))]
    cast = next((facts.recordings[task] for task in change["tasks"][:1] if task in facts.recordings), "")
    merged = _find_resolution(facts, change)
    rows = [
        f"turns green: {format_list(tests, 6)}" if tests else "no test was seen red without it",
        f"proof: {proof}" if proof else "",
        _format_authors(change, 4),
        f"merged with {format_list(merged['others'], 4)} by {format_text(merged['by'], 30)}" if merged else "",
        _format_advice(facts, change),
        f"{'recording' if cast.endswith('.cast') else 'transcript'}: {format_code(cast)}" if cast else "",
    ]
    return [
        f"{mark} {_format_change(change, commit, 120)}",
        *(f"{' ' * len(mark)} - {row}" for row in rows if row),
    ]


def _format_change(change: Row, commit: Row, most: int) -> str:
    title = format_text(_KIND.sub("", change["title"]), most)
    return f"**{title}** {format_code(change['id'])} in {format_code(commit['commit'][:10])}"


def _format_authors(change: Row, most: int) -> str:
    """By whom, and where the first receipt is."""
    makers = change["made_by"]
    if not makers:
        return "no receipt"
    others = sum(bool(one.get("variant")) for one in makers)
    names = f" ({format_list(change['tasks'], most)})" if len(makers) > 1 and most else ""
    more = f", {others} in other words" if others and most else ""
    first = makers[0]
    seen = f"{format_text(first['verdict'])} {format_text(first['runs'])}: {format_code('tasks/' + first['task'] + '/receipt.json')}"
    return f"found by {format_count(len(makers), 'task')}{names}{more}, {seen}"


def _format_advice(facts: PullRequestFacts, change: Row) -> str:
    """Why it comes before others that the evidence does not set apart from it."""
    for row in facts.integration.get("ranked") or ():
        if change["id"] == row["changes"][0]:
            who, why = format_text(row["agent"], 60), format_text(row["reason"], 200)
            return f"equal by evidence to {format_list(row['changes'][1:], 4)}; {who} puts it first: {why}"
    return ""


def _find_resolution(facts: PullRequestFacts, change: Row) -> Row | None:
    rows = facts.integration.get("resolved") or ()
    return next((row for row in rows if row["change"] == change["id"]), None)


def _format_first_proof(facts: PullRequestFacts, change: Row, level: int) -> str:
    """Red and green in one line, by the first receipt that has it."""
    checks = {one.task.slug: one.check or {} for one in facts.tasks}
    for maker in change["made_by"]:
        for row in checks.get(maker["task"], {}).get("proofs") or ():
            if not set(row["fixes"]).isdisjoint(maker["commits"]):
                return _format_proof(row, level)
    return ""


def _format_proof(row: Row, level: int) -> str:
    if row["is_needed"] is None:
        return f"none, {format_text(row.get('reason'), 120)}"
    is_same = row.get("is_same_reason")
    same = "" if is_same is None else " for the same reason" if is_same else " for another reason"
    why = format_code(row.get("without_why") or row.get("before_why"), 120) if level == 0 else ""
    line = f"before {format_text(row['before'] or 'not there')}, without it {format_text(row['without'] or 'not run')}{same}, with it pass"
    return f"{line}: {why}" if why else line


def render_test_edits(facts: PullRequestFacts, level: int = 0) -> str:
    """Tests and texts, for who wants to see them."""
    rows = facts.list_changes("test")
    if not rows:
        return ""
    commit = facts.list_commits("test")[0]
    size = [sum(row.get("size", {}).get(key, 0) for row in rows) for key in ("files", "added", "removed")]
    name = f"{format_count(len(rows), 'test or doc edit')} in <code>{commit['commit'][:10]}</code>, +{size[1]:,} −{size[2]:,}"
    if level >= 3:
        return f"## Tests and texts\n\n{format_count(len(rows), 'edit')} in {format_code(commit['commit'][:10])}, +{size[1]:,} −{size[2]:,}."
    if level == 2:
        paths = sorted({path for row in rows for path in row["paths"]})
        return "## Tests and texts\n\n" + format_details(name, f"In {format_list(paths, 60, 80)}.")
    lines = []
    for row in rows:
        who = f" · {format_list(row['tasks'], 2)} · {format_list(row['paths'], 2)}" if level == 0 else ""
        lines.append(f"- {format_text(row['title'], 100 if level == 0 else 50)} {format_code(row['id'])}{who}")
    return "## Tests and texts\n\n" + format_details(name, "\n".join(lines))


# What is not


def render_excluded(facts: PullRequestFacts, level: int = 0) -> str:
    """The changes that are not in, by why, each with its reason and proof."""
    rows = facts.integration["left_out"]
    if not rows:
        return ""
    whys = sort_known_first({str(row["why"]) for row in rows}, list(_EXCLUSION_TITLES))
    most = _MAX_ITEMS.get(level, len(rows))
    lines = [
        f"See one: `mngr tmr changes {facts.run} CHANGE --diff`. Take it in: `mngr tmr integrate {facts.run} --with CHANGE`."
    ]
    for why in whys:
        some = [row for row in rows if row["why"] == why]
        lines += ["", f"**{format_text(_EXCLUSION_TITLES.get(why, why))}: {len(some)}**", ""]
        lines += [line for row in some[:most] for line in _format_exclusion(row, level)]
        lines += [f"- and {len(some) - most} more: `mngr tmr changes {facts.run}`"] if len(some) > most else []
    return f"## Not in, and why ({len(rows)})\n\n" + "\n".join(lines)


def _format_exclusion(row: Row, level: int) -> list[str]:
    """Its reason, and the proof; what the one says already the other need not."""
    at = min(level, 3)
    proof = row.get("proof") or {}
    why = str(proof.get("why") or "")
    title = format_text(_KIND.sub("", row["title"]), (100, 60, 40, 20)[at])
    reason = row["reason"].removesuffix(f": {why}") if why and level < 2 else row["reason"]
    said = format_text(reason, (300, 160, 90, 70)[at])
    if level >= 2:
        return [f"- {title} {format_code(row['change'])}: {said}"]
    head = f"- **{title}** {format_code(row['change'])} ({format_text(row['kind'])}, {format_list(row['tasks'], (3, 1)[at])}): {said}"
    if not proof:
        return [head]
    seen = f"{format_code(proof['test'], (160, 80)[at])} {format_text(proof['before'])} → {format_text(proof['after'])}"
    return [head, f"  - {seen}" + (f": {format_code(why, (160, 60)[at])}" if why else "")]


def render_tasks(facts: PullRequestFacts, level: int = 0) -> str:
    """Tasks of which nothing was taken, those for the same cause together; what agents ask people about is told there."""
    asked = {row["title"] for row in _list_questions(facts, 2)}  # which are told whatever gives way
    told = [row for row in facts.causes if row["reason"] in asked]
    rows = [row for row in facts.causes if row["reason"] not in asked]
    number = sum(row["count"] for row in facts.causes)
    if not facts.causes:
        return ""
    name = f"{format_count(number, 'task')} for {format_count(len(facts.causes), 'reason')}"
    if level >= 3:
        return f"## Nothing taken\n\n{name}: `mngr tmr status {facts.run}`."
    most = (60, 60, 25)[level]
    lines = [
        f"- **{row['count']}×** {format_text(row['reason'], (200, 100, 80)[level])} · {format_list(row['tasks'], (4, 1, 1)[level])}"
        for row in rows[:most]
    ]
    if rest := rows[most:]:
        lines.append(f"- and {format_count(sum(row['count'] for row in rest), 'task')} for {len(rest)} other reasons")
    if told:
        slugs = [slug for row in told for slug in row["tasks"]]
        lines.append(f"- **{len(slugs)}×** a question to people, below · {format_list(slugs, (8, 2, 1)[level])}")
    body = "\n".join(lines)
    return "## Nothing taken\n\n" + (format_details(name, body) if len(lines) > _MAX_VISIBLE_LINES else body)


def render_escalations(facts: PullRequestFacts, level: int = 0) -> str:
    """What agents want somebody to see to."""
    rows, lines = _list_questions(facts, level), []
    held = {row["why"]: row for row in facts.unrepaired_causes}
    for row in rows:
        places = [f"{one['path']}:{one['line']}" if one.get("line") else one["path"] for one in row["locations"]]
        kind = str(row["kind"]).replace("_", " ").lower()
        cause = held.pop(row["title"], None)
        more = [f"{format_count(len(cause['tests']), 'test')} of {format_code(cause['cause'])}"] if cause else []
        more += [_format_detail(row), format_list(places, 3)] if level == 0 else []
        said = f"- **{row['count']}×** {format_text(kind, 30)}: {format_text(row['title'], 160 if level == 0 else 120)}"
        lines.append(" · ".join([said, *filter(None, more)]))
    for row in list(held.values())[: _MAX_QUESTIONS[min(level, 2)] // 2]:
        lines.append(
            f"- nobody has mended {format_code(row['cause'])}, {format_count(len(row['tests']), 'test')}: {format_text(row['why'], 160)}"
        )
    return _render_section("For people", lines, len(facts.escalations) - len(rows), "of them")


def _list_questions(facts: PullRequestFacts, level: int) -> list[Row]:
    return facts.escalations[: _MAX_QUESTIONS[min(level, 2)]]


def _format_detail(row: Row) -> str:
    """What it says beyond its title: the first words of it, and the command that it is about."""
    words, _, block = str(row.get("detail") or "").partition("```")
    said = words.strip().rstrip(".")
    said = "" if said.endswith(row["title"].rstrip(".…")) else f"{format_text(said, 200)}"
    command = next((line.strip() for line in block.splitlines() if line.startswith("$ ")), "")
    return " · ".join(filter(None, [said, format_code(command, 100)]))


def _render_section(name: str, lines: Sequence[str], over: int, noun: str) -> str:
    if not lines:
        return ""
    more = [f"\nand {over} more {noun}"] if over else []
    return f"## {name}\n\n" + "\n".join([*lines, *more])
