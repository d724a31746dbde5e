"""Renders the parts of a pull request whose length depends on the run.

Each part has levels, from everything (0) down to the minimum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.excluded_tasks import EscalationGroup
from mngr.tmr.changes.integration_record import BranchCommit, CheckResult, ExcludedChange
from mngr.tmr.deliver.facts import PullRequestFacts
from mngr.tmr.deliver.markdown import (
    format_code,
    format_count,
    format_details,
    format_list,
    format_text,
    sort_known_first,
)
from mngr.tmr.finding import Finding
from mngr.tmr.verify.claim import Location
from mngr.tmr.verify.receipt import find_receipt
from mngr.tmr.verify.red_green import RedGreenProof

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
    rows = facts.integration.red
    max_tests = 40 if level == 0 else 12
    max_length = 160 if level == 0 else 60
    failed = [check for check in facts.integration.checks if check.was_ok and not check.ok]
    lines = [_format_failed_check(check) for check in failed[:10]]
    lines += [f"- {format_code(row.test, 160)}: {format_code(row.why, max_length)}" for row in rows[:max_tests]]
    return _render_section("Not well", lines, max(0, len(rows) - max_tests), "tests")


def _format_failed_check(check: CheckResult) -> str:
    """Return the command of a check and the last line of its output."""
    last_line = next((line for line in reversed(check.output.splitlines()) if line.strip()), "it says nothing")
    parts = [format_code(check.command, 120), format_code(last_line, 200)]
    return f"- {format_text(check.name, 30)}: {' '.join(filter(None, parts))}"


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


def _list_findings(change: Change, level: int) -> list[str]:
    """Return the findings of an edit as lines; equal texts appear once, with all their locations."""
    max_length = (240, 100, 60)[min(level, 2)]
    locations_by_text: dict[str, list[str]] = {}
    for finding in change.findings:
        if finding.level == "justified":
            continue
        text = format_text(finding.what, max_length)
        if level == 0:
            text += _format_line_change(finding)
        locations = locations_by_text.setdefault(text, [])
        location = f"{finding.path}:{finding.line}" if finding.line else finding.path
        if location and location not in locations:
            locations.append(location)
    return [
        f"{format_list(locations, 3)}: {text}" if locations else text for text, locations in locations_by_text.items()
    ]


def _format_line_change(finding: Finding) -> str:
    """Return the old and the new line, if they differ."""
    old, new = format_code(finding.old, 100), format_code(finding.new, 100)
    if not old or old == new:
        return ""
    return f": {old} → {new}" if new else f": {old}"


def render_fixes(facts: PullRequestFacts, level: int = 0) -> str:
    """Render each fix of the implementation, in the order of the branch."""
    rows = facts.list_committed_changes("fix")
    shown = rows[: _MAX_ITEMS.get(level, len(rows))]
    lines = []
    for number, (commit, change) in enumerate(shown, 1):
        lines += _render_fix(facts, number, commit, change, level)
    return _render_section("Fixes, best first", lines, len(rows) - len(shown), "fixes")


def _render_fix(facts: PullRequestFacts, number: int, commit: BranchCommit, change: Change, level: int) -> list[str]:
    """Return the lines of one fix, from all details (level 0) down to its title and commit."""
    list_marker = f"{number}."
    tests = commit.fixed_tests or change.fixed_tests
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
    rows = [
        f"turns green: {format_list(tests, 6)}" if tests else "no test was seen red without it",
        f"proof: {proof}" if proof else "",
        _format_authors(change, 4),
        _format_resolution(facts, change),
        _format_advice(facts, change),
        _format_recording(facts, change),
    ]
    return [
        f"{list_marker} {_format_change(change, commit, 120)}",
        *(f"{' ' * len(list_marker)} - {row}" for row in rows if row),
    ]


def _format_change(change: Change, commit: BranchCommit, max_length: int) -> str:
    title = format_text(_KIND.sub("", change.title), max_length)
    return f"**{title}** {format_code(change.id)} in {format_code(commit.commit[:10])}"


def _format_authors(change: Change, max_tasks: int) -> str:
    """Return how many tasks made a change, and where its first receipt is."""
    authors = change.made_by
    if not authors:
        return "no receipt"
    text = f"found by {format_count(len(authors), 'task')}"
    if max_tasks:
        variant_count = sum(bool(author.variant) for author in authors)
        text += f" ({format_list(change.tasks, max_tasks)})" if len(authors) > 1 else ""
        text += f", {variant_count} in other words" if variant_count else ""
    first = authors[0]
    receipt_path = format_code(f"tasks/{first.task}/receipt.json")
    return f"{text}, {format_text(first.verdict)} {format_text(first.runs)}: {receipt_path}"


def _format_advice(facts: PullRequestFacts, change: Change) -> str:
    """Return why an agent ranks the change before others with equal evidence, or an empty string."""
    for order in facts.integration.ranked:
        if change.id == order.changes[0]:
            agent, reason = format_text(order.agent, 60), format_text(order.reason, 200)
            return f"equal by evidence to {format_list(order.changes[1:], 4)}; {agent} puts it first: {reason}"
    return ""


def _format_resolution(facts: PullRequestFacts, change: Change) -> str:
    """Return how a conflict of the change was resolved, or an empty string."""
    for row in facts.integration.resolved:
        if row.change == change.id:
            return f"merged with {format_list(row.others, 4)} by {format_text(row.by, 30)}"
    return ""


def _format_recording(facts: PullRequestFacts, change: Change) -> str:
    """Return where the recording of the change's first task is, or an empty string."""
    path = facts.recordings.get(change.tasks[0], "") if change.tasks else ""
    if not path:
        return ""
    noun = "recording" if path.endswith(".cast") else "transcript"
    return f"{noun}: {format_code(path)}"


def _format_first_proof(facts: PullRequestFacts, change: Change, level: int) -> str:
    """Return the results with and without the fix in one line, from the first receipt that has them."""
    checks = {task.task.slug: task.check for task in facts.tasks}
    for author in change.made_by:
        receipt = find_receipt(checks.get(author.task))
        for proof in receipt.proofs if receipt is not None else ():
            if not set(proof.fixes).isdisjoint(author.commits):
                return _format_proof(proof, level)
    return ""


def _format_proof(proof: RedGreenProof, level: int) -> str:
    if proof.is_needed is None:
        return f"none, {format_text(proof.reason, 120)}"
    same_texts = {None: "", True: " for the same reason", False: " for another reason"}
    before, without = format_text(proof.before or "not there"), format_text(proof.without or "not run")
    line = f"before {before}, without it {without}{same_texts[proof.is_same_reason]}, with it pass"
    failure = format_code(proof.without_why or proof.before_why, 120) if level == 0 else ""
    return f"{line}: {failure}" if failure else line


def render_test_edits(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the edits of tests and docs in a collapsed block."""
    rows = facts.list_changes("test")
    if not rows:
        return ""
    commit = facts.list_commits("test")[0].commit[:10]
    size = f"+{sum(row.size.added for row in rows):,} −{sum(row.size.removed for row in rows):,}"
    title = f"{format_count(len(rows), 'test or doc edit')} in <code>{commit}</code>, {size}"
    if level >= 3:
        return f"## Tests and texts\n\n{format_count(len(rows), 'edit')} in {format_code(commit)}, {size}."
    if level == 2:
        paths = sorted({path for row in rows for path in row.paths})
        return "## Tests and texts\n\n" + format_details(title, f"In {format_list(paths, 60, 80)}.")
    lines = []
    for row in rows:
        sources = f" · {format_list(row.tasks, 2)} · {format_list(row.paths, 2)}" if level == 0 else ""
        lines.append(f"- {format_text(row.title, 100 if level == 0 else 50)} {format_code(row.id)}{sources}")
    return "## Tests and texts\n\n" + format_details(title, "\n".join(lines))


# What the branch does not contain


def render_excluded(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the excluded changes by kind of reason, each with its reason and evidence."""
    rows = facts.integration.left_out
    if not rows:
        return ""
    reasons = sort_known_first({row.why for row in rows}, list(_EXCLUSION_TITLES))
    max_changes = _MAX_ITEMS.get(level, len(rows))
    lines = [
        f"See one: `mngr tmr changes {facts.run} CHANGE --diff`. Take it in: `mngr tmr integrate {facts.run} --with CHANGE`."
    ]
    for reason in reasons:
        matching = [row for row in rows if row.why == reason]
        lines += ["", f"**{format_text(_EXCLUSION_TITLES.get(reason, reason))}: {len(matching)}**", ""]
        for row in matching[:max_changes]:
            lines += _format_exclusion(row, level)
        if len(matching) > max_changes:
            lines.append(f"- and {len(matching) - max_changes} more: `mngr tmr changes {facts.run}`")
    return f"## Not in, and why ({len(rows)})\n\n" + "\n".join(lines)


def _format_exclusion(row: ExcludedChange, level: int) -> list[str]:
    """Return an excluded change with its reason and evidence, without repeating the same text."""
    index = min(level, 3)
    title = format_text(_KIND.sub("", row.title), (100, 60, 40, 20)[index])
    max_reason = (300, 160, 90, 70)[index]
    if level >= 2:
        return [f"- {title} {format_code(row.change)}: {format_text(row.reason, max_reason)}"]
    proof = row.proof
    reason = row.reason
    if proof is not None and proof.why:
        reason = reason.removesuffix(f": {proof.why}")
    source = f"{format_text(row.kind)}, {format_list(row.tasks, (3, 1)[index])}"
    head = f"- **{title}** {format_code(row.change)} ({source}): {format_text(reason, max_reason)}"
    if proof is None:
        return [head]
    evidence = f"{format_code(proof.test, (160, 80)[index])} {format_text(proof.before)} → {format_text(proof.after)}"
    failure = f": {format_code(proof.why, (160, 60)[index])}" if proof.why else ""
    return [head, f"  - {evidence}{failure}"]


def render_tasks(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the tasks without any included change, grouped by reason.

    Reasons that are questions to people appear in the section of `render_escalations` instead.
    """
    question_titles = {row.title for row in _list_questions(facts, 2)}  # these are shown at every level
    questions = [row for row in facts.causes if row.reason in question_titles]
    rows = [row for row in facts.causes if row.reason not in question_titles]
    task_count = sum(row.count for row in facts.causes)
    if not facts.causes:
        return ""
    summary = f"{format_count(task_count, 'task')} for {format_count(len(facts.causes), 'reason')}"
    if level >= 3:
        return f"## Nothing taken\n\n{summary}: `mngr tmr status {facts.run}`."
    max_reasons, max_length, max_tasks = (60, 60, 25)[level], (200, 100, 80)[level], (4, 1, 1)[level]
    lines = [
        f"- **{row.count}×** {format_text(row.reason, max_length)} · {format_list(row.tasks, max_tasks)}"
        for row in rows[:max_reasons]
    ]
    rest = rows[max_reasons:]
    if rest:
        lines.append(f"- and {format_count(sum(row.count for row in rest), 'task')} for {len(rest)} other reasons")
    if questions:
        slugs = [slug for row in questions for slug in row.tasks]
        lines.append(f"- **{len(slugs)}×** a question to people, below · {format_list(slugs, (8, 2, 1)[level])}")
    body = "\n".join(lines)
    return "## Nothing taken\n\n" + (format_details(summary, body) if len(lines) > _MAX_VISIBLE_LINES else body)


def render_escalations(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the questions that agents raise for people."""
    rows, lines = _list_questions(facts, level), []
    unrepaired = {cause.why: cause for cause in facts.unrepaired_causes}
    for row in rows:
        kind = row.kind.replace("_", " ").lower()
        title = format_text(row.title, 160 if level == 0 else 120)
        parts = [f"- **{row.count}×** {format_text(kind, 30)}: {title}"]
        root_cause = unrepaired.pop(row.title, None)
        if root_cause is not None:
            parts.append(f"{format_count(len(root_cause.tests), 'test')} of {format_code(root_cause.root_cause)}")
        if level == 0:
            parts += [_format_detail(row), format_list([_format_location(place) for place in row.locations], 3)]
        lines.append(" · ".join(filter(None, parts)))
    for cause in list(unrepaired.values())[: _MAX_QUESTIONS[min(level, 2)] // 2]:
        tests = format_count(len(cause.tests), "test")
        lines.append(f"- nobody has mended {format_code(cause.root_cause)}, {tests}: {format_text(cause.why, 160)}")
    return _render_section("For people", lines, len(facts.escalations) - len(rows), "of them")


def _list_questions(facts: PullRequestFacts, level: int) -> list[EscalationGroup]:
    return facts.escalations[: _MAX_QUESTIONS[min(level, 2)]]


def _format_location(location: Location) -> str:
    return f"{location.path}:{location.line}" if location.line else location.path


def _format_detail(row: EscalationGroup) -> str:
    """Return what an escalation says beyond its title: its first words and its command."""
    prose, _, block = row.detail.partition("```")
    text = prose.strip().rstrip(".")
    text = "" if text.endswith(row.title.rstrip(".…")) else format_text(text, 200)
    command = next((line.strip() for line in block.splitlines() if line.startswith("$ ")), "")
    return " · ".join(filter(None, [text, format_code(command, 100)]))


def _render_section(name: str, lines: Sequence[str], hidden_count: int, noun: str) -> str:
    if not lines:
        return ""
    more = [f"\nand {hidden_count} more {noun}"] if hidden_count else []
    return f"## {name}\n\n" + "\n".join([*lines, *more])
