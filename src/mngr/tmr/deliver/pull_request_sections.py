"""Renders the parts of a pull request whose length depends on the run.

Each part has levels, from everything (0) down to the minimum.
"""

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
_KIND = re.compile(r"^\[[A-Z_]{1,20}\]\s+(?=\S)")  # the section's title already says it
_MAX_QUESTIONS = (30, 15, 5)  # questions to people, by level
_MAX_VISIBLE_LINES = 5  # longer lists are collapsed
_MAX_ITEMS = {4: 200, 5: 50, 6: 10}  # items by level, where not all are listed


# What the branch contains


def render_failing_tests(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the failing checks and tests at the head of the branch."""
    rows = facts.integration.get("red") or []
    max_tests = (40, 12)[min(level, 1)]
    failed = [row for row in facts.integration.get("checks") or () if not row["ok"] and row.get("was_ok", True)]
    lines = [
        f"- {format_text(row['name'], 30)}: {' '.join(filter(None, [format_code(row.get('command'), 120), format_code(_last_line(row.get('output')), 200)]))}"
        for row in failed[:10]
    ]
    lines += [
        f"- {format_code(row['test'], 160)}: {format_code(row.get('why'), (160, 60)[min(level, 1)])}"
        for row in rows[:max_tests]
    ]
    return _render_section("Not well", lines, max(0, len(rows) - max_tests), "tests")


def _last_line(output: object) -> str:
    return next((line for line in reversed(str(output or "").splitlines()) if line.strip()), "it says nothing")


def render_flagged(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the edits that a person should look at, with their findings."""
    rows = facts.flagged
    shown = rows[: _MAX_ITEMS.get(level + 2, len(rows))]
    lines = []
    for commit, change in shown:
        lines.append(f"- {_format_change(change, commit, 100 if level == 0 else 40)}")
        findings = _list_findings(change, level)
        max_findings = (8, 2, 1)[min(level, 2)]
        lines += [f"  - {line}" for line in findings[:max_findings]]
        if len(findings) > max_findings:
            lines.append(f"  - and {len(findings) - max_findings} more")
    return _render_section("Look at these", lines, len(rows) - len(shown), "edits")


def _list_findings(change: Row, level: int) -> list[str]:
    """Return the findings of an edit as lines; equal texts appear once, with all their locations."""
    locations: dict[str, list[str]] = {}
    for row in change["findings"]:
        if row.get("level") == "justified":
            continue
        text = format_text(row["what"], (240, 100, 60)[min(level, 2)]) + (
            _format_line_change(row) if level == 0 else ""
        )
        location = f"{row['path']}:{row['line']}" if row.get("line") else row.get("path") or ""
        locations[text] = [
            *locations.get(text, []),
            *([location] if location and location not in locations.get(text, []) else []),
        ]
    return [
        f"{format_list(text_locations, 3)}: {text}" if text_locations else text
        for text, text_locations in locations.items()
    ]


def _format_line_change(row: Row) -> str:
    """Return the old and the new line, if they differ."""
    old, new = format_code(row.get("old"), 100), format_code(row.get("new"), 100)
    return f": {old} → {new}" if old and new and old != new else f": {old}" if old and not new else ""


def render_fixes(facts: PullRequestFacts, level: int = 0) -> str:
    """Render each fix of the implementation, in the order of the branch."""
    rows = [(commit, facts.get_change(name)) for commit in facts.list_commits("fix") for name in commit["changes"]]
    shown = rows[: _MAX_ITEMS.get(level, len(rows))]
    lines = [
        line
        for number, (commit, change) in enumerate(shown, 1)
        for line in _render_fix(facts, number, commit, change, level)
    ]
    return _render_section("Fixes, best first", lines, len(rows) - len(shown), "fixes")  # fmt: skip


def _render_fix(facts: PullRequestFacts, number: int, commit: Row, change: Row, level: int) -> list[str]:
    """Return the lines of one fix, from all details (level 0) down to its title and commit."""
    list_marker = f"{number}."
    tests = list(commit.get("turned") or change.get("turned") or ())
    if level >= 3:
        return [f"{list_marker} {_format_change(change, commit, 40)}"]
    if level == 2:
        return [
            f"{list_marker} {_format_change(change, commit, 60)} · {format_count(len(tests), 'test')} green · {_format_authors(change, 0)}"
        ]
    proof = _format_first_proof(facts, change, level)
    if level == 1:
        parts = [f"green: {format_list(tests, 1, 80)}" if tests else "", _format_authors(change, 0), proof]
        return [f"{list_marker} {_format_change(change, commit, 80)} · " + " · ".join(filter(None, parts))]
    recording = next((facts.recordings[task] for task in change["tasks"][:1] if task in facts.recordings), "")
    resolution = _find_resolution(facts, change)
    rows = [
        f"turns green: {format_list(tests, 6)}" if tests else "no test was seen red without it",
        f"proof: {proof}" if proof else "",
        _format_authors(change, 4),
        f"merged with {format_list(resolution['others'], 4)} by {format_text(resolution['by'], 30)}"
        if resolution
        else "",
        _format_advice(facts, change),
        f"{'recording' if recording.endswith('.cast') else 'transcript'}: {format_code(recording)}"
        if recording
        else "",
    ]
    return [
        f"{list_marker} {_format_change(change, commit, 120)}",
        *(f"{' ' * len(list_marker)} - {row}" for row in rows if row),
    ]


def _format_change(change: Row, commit: Row, max_length: int) -> str:
    title = format_text(_KIND.sub("", change["title"]), max_length)
    return f"**{title}** {format_code(change['id'])} in {format_code(commit['commit'][:10])}"


def _format_authors(change: Row, max_tasks: int) -> str:
    """Return how many tasks made a change, and where its first receipt is."""
    authors = change["made_by"]
    if not authors:
        return "no receipt"
    variant_count = sum(bool(author.get("variant")) for author in authors)
    task_list = f" ({format_list(change['tasks'], max_tasks)})" if len(authors) > 1 and max_tasks else ""
    variant_text = f", {variant_count} in other words" if variant_count and max_tasks else ""
    first_author = authors[0]
    receipt = f"{format_text(first_author['verdict'])} {format_text(first_author['runs'])}: {format_code('tasks/' + first_author['task'] + '/receipt.json')}"
    return f"found by {format_count(len(authors), 'task')}{task_list}{variant_text}, {receipt}"


def _format_advice(facts: PullRequestFacts, change: Row) -> str:
    """Return why an agent ranks the change before others with equal evidence, or an empty string."""
    for row in facts.integration.get("ranked") or ():
        if change["id"] == row["changes"][0]:
            agent, reason = format_text(row["agent"], 60), format_text(row["reason"], 200)
            return f"equal by evidence to {format_list(row['changes'][1:], 4)}; {agent} puts it first: {reason}"
    return ""


def _find_resolution(facts: PullRequestFacts, change: Row) -> Row | None:
    rows = facts.integration.get("resolved") or ()
    return next((row for row in rows if row["change"] == change["id"]), None)


def _format_first_proof(facts: PullRequestFacts, change: Row, level: int) -> str:
    """Return the results with and without the fix in one line, from the first receipt that has them."""
    checks = {task.task.slug: task.check or {} for task in facts.tasks}
    for author in change["made_by"]:
        for row in checks.get(author["task"], {}).get("proofs") or ():
            if not set(row["fixes"]).isdisjoint(author["commits"]):
                return _format_proof(row, level)
    return ""


def _format_proof(row: Row, level: int) -> str:
    if row["is_needed"] is None:
        return f"none, {format_text(row.get('reason'), 120)}"
    is_same = row.get("is_same_reason")
    same_text = "" if is_same is None else " for the same reason" if is_same else " for another reason"
    failure = format_code(row.get("without_why") or row.get("before_why"), 120) if level == 0 else ""
    line = f"before {format_text(row['before'] or 'not there')}, without it {format_text(row['without'] or 'not run')}{same_text}, with it pass"
    return f"{line}: {failure}" if failure else line


def render_test_edits(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the edits of tests and docs in a collapsed block."""
    rows = facts.list_changes("test")
    if not rows:
        return ""
    commit = facts.list_commits("test")[0]
    size = [sum(row.get("size", {}).get(key, 0) for row in rows) for key in ("files", "added", "removed")]
    title = f"{format_count(len(rows), 'test or doc edit')} in <code>{commit['commit'][:10]}</code>, +{size[1]:,} −{size[2]:,}"
    if level >= 3:
        return f"## Tests and texts\n\n{format_count(len(rows), 'edit')} in {format_code(commit['commit'][:10])}, +{size[1]:,} −{size[2]:,}."
    if level == 2:
        paths = sorted({path for row in rows for path in row["paths"]})
        return "## Tests and texts\n\n" + format_details(title, f"In {format_list(paths, 60, 80)}.")
    lines = []
    for row in rows:
        sources = f" · {format_list(row['tasks'], 2)} · {format_list(row['paths'], 2)}" if level == 0 else ""
        lines.append(f"- {format_text(row['title'], 100 if level == 0 else 50)} {format_code(row['id'])}{sources}")
    return "## Tests and texts\n\n" + format_details(title, "\n".join(lines))


# What the branch does not contain


def render_excluded(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the excluded changes by kind of reason, each with its reason and evidence."""
    rows = facts.integration["left_out"]
    if not rows:
        return ""
    reasons = sort_known_first({str(row["why"]) for row in rows}, list(_EXCLUSION_TITLES))
    max_changes = _MAX_ITEMS.get(level, len(rows))
    lines = [
        f"See one: `mngr tmr changes {facts.run} CHANGE --diff`. Take it in: `mngr tmr integrate {facts.run} --with CHANGE`."
    ]
    for reason in reasons:
        matching = [row for row in rows if row["why"] == reason]
        lines += ["", f"**{format_text(_EXCLUSION_TITLES.get(reason, reason))}: {len(matching)}**", ""]
        lines += [line for row in matching[:max_changes] for line in _format_exclusion(row, level)]
        lines += (
            [f"- and {len(matching) - max_changes} more: `mngr tmr changes {facts.run}`"]
            if len(matching) > max_changes
            else []
        )
    return f"## Not in, and why ({len(rows)})\n\n" + "\n".join(lines)


def _format_exclusion(row: Row, level: int) -> list[str]:
    """Return an excluded change with its reason and evidence, without repeating the same text."""
    index = min(level, 3)
    proof = row.get("proof") or {}
    failure = str(proof.get("why") or "")
    title = format_text(_KIND.sub("", row["title"]), (100, 60, 40, 20)[index])
    reason = row["reason"].removesuffix(f": {failure}") if failure and level < 2 else row["reason"]
    reason_text = format_text(reason, (300, 160, 90, 70)[index])
    if level >= 2:
        return [f"- {title} {format_code(row['change'])}: {reason_text}"]
    head = f"- **{title}** {format_code(row['change'])} ({format_text(row['kind'])}, {format_list(row['tasks'], (3, 1)[index])}): {reason_text}"
    if not proof:
        return [head]
    evidence = (
        f"{format_code(proof['test'], (160, 80)[index])} {format_text(proof['before'])} → {format_text(proof['after'])}"
    )
    return [head, f"  - {evidence}" + (f": {format_code(failure, (160, 60)[index])}" if failure else "")]


def render_tasks(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the tasks without any included change, grouped by reason.

    Reasons that are questions to people appear in the section of `render_escalations` instead.
    """
    question_titles = {row["title"] for row in _list_questions(facts, 2)}  # these are shown at every level
    questions = [row for row in facts.causes if row["reason"] in question_titles]
    rows = [row for row in facts.causes if row["reason"] not in question_titles]
    task_count = sum(row["count"] for row in facts.causes)
    if not facts.causes:
        return ""
    summary = f"{format_count(task_count, 'task')} for {format_count(len(facts.causes), 'reason')}"
    if level >= 3:
        return f"## Nothing taken\n\n{summary}: `mngr tmr status {facts.run}`."
    max_reasons = (60, 60, 25)[level]
    lines = [
        f"- **{row['count']}×** {format_text(row['reason'], (200, 100, 80)[level])} · {format_list(row['tasks'], (4, 1, 1)[level])}"
        for row in rows[:max_reasons]
    ]
    if rest := rows[max_reasons:]:
        lines.append(f"- and {format_count(sum(row['count'] for row in rest), 'task')} for {len(rest)} other reasons")
    if questions:
        slugs = [slug for row in questions for slug in row["tasks"]]
        lines.append(f"- **{len(slugs)}×** a question to people, below · {format_list(slugs, (8, 2, 1)[level])}")
    body = "\n".join(lines)
    return "## Nothing taken\n\n" + (format_details(summary, body) if len(lines) > _MAX_VISIBLE_LINES else body)


def render_escalations(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the questions that agents raise for people."""
    rows, lines = _list_questions(facts, level), []
    unrepaired = {row["why"]: row for row in facts.unrepaired_causes}
    for row in rows:
        locations = [
            f"{location['path']}:{location['line']}" if location.get("line") else location["path"]
            for location in row["locations"]
        ]
        kind = str(row["kind"]).replace("_", " ").lower()
        root_cause = unrepaired.pop(row["title"], None)
        extras = (
            [f"{format_count(len(root_cause['tests']), 'test')} of {format_code(root_cause['cause'])}"]
            if root_cause
            else []
        )
        extras += [_format_detail(row), format_list(locations, 3)] if level == 0 else []
        text = f"- **{row['count']}×** {format_text(kind, 30)}: {format_text(row['title'], 160 if level == 0 else 120)}"
        lines.append(" · ".join([text, *filter(None, extras)]))
    for row in list(unrepaired.values())[: _MAX_QUESTIONS[min(level, 2)] // 2]:
        lines.append(
            f"- nobody has mended {format_code(row['cause'])}, {format_count(len(row['tests']), 'test')}: {format_text(row['why'], 160)}"
        )
    return _render_section("For people", lines, len(facts.escalations) - len(rows), "of them")


def _list_questions(facts: PullRequestFacts, level: int) -> list[Row]:
    return facts.escalations[: _MAX_QUESTIONS[min(level, 2)]]


def _format_detail(row: Row) -> str:
    """Return what an escalation says beyond its title: its first words and its command."""
    prose, _, block = str(row.get("detail") or "").partition("```")
    text = prose.strip().rstrip(".")
    text = "" if text.endswith(row["title"].rstrip(".…")) else f"{format_text(text, 200)}"
    command = next((line.strip() for line in block.splitlines() if line.startswith("$ ")), "")
    return " · ".join(filter(None, [text, format_code(command, 100)]))


def _render_section(name: str, lines: Sequence[str], hidden_count: int, noun: str) -> str:
    if not lines:
        return ""
    more = [f"\nand {hidden_count} more {noun}"] if hidden_count else []
    return f"## {name}\n\n" + "\n".join([*lines, *more])
