"""Renders the parts of a pull request whose length depends on the run.

Each part has levels, from everything (0) down to the minimum.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mngr.base.size_format import choose_noun, format_count
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.integration_record import BranchCommit, ExcludedChange, describe_resolver
from mngr.tmr.changes.list_exclusions import EscalationGroup
from mngr.tmr.deliver.evidence import format_agents, format_authors, format_result, render_transcript
from mngr.tmr.deliver.markdown import (
    format_code,
    format_details,
    format_list,
    format_text,
    sort_known_first,
)
from mngr.tmr.deliver.pull_request_facts import PullRequestFacts
from mngr.tmr.finding import Finding
from mngr.tmr.verify.claim import Location

_EXCLUSION_TITLES = {
    "conflict": "Conflict with a change in the branch",
    "breaks": "Break a test",
    "more_failures": "Leave more tests failing at their commit",
    "needs": "Need an excluded change",
    "requested": "Excluded by a person",
    "already": "Already in the branch",
}
_QUESTION_TITLES = {
    "BLOCKER": "Blocked",
    "SHARED_CAUSE": "Shared root cause",
    "UNCAUGHT_BUG": "Bug that no test catches",
    "AMBIGUOUS": "Ambiguous",
    "HARNESS_DEFECT": "Defect in the test harness",
    "DUPLICATE": "Duplicate test",
}
_KIND = re.compile(r"^\[[A-Z_]{1,20}\]\s+(?=\S)")  # the section's title already says it
_MAX_QUESTIONS = (30, 15, 5)  # questions, by level
_MAX_VISIBLE_LINES = 5  # longer lists are collapsed
_MAX_ITEMS = {4: 200, 5: 50, 6: 10}  # items by level, where not all are listed


# Tests that fail


def render_regressions(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the tests that passed before and fail now."""
    rows = {row.test: row.why for row in facts.integration.regressions}
    return _render_failures("Regressions", "These tests passed before, and fail now.", rows, level)


def render_still_failing(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the tests that failed before and still fail, and the flaky tests."""
    data = facts.integration
    failing = {test: data.failure_reasons.get(test, "") for test in data.still_failing}
    intro = "These tests failed before this run, and no change in the branch repairs them."
    flaky = dict.fromkeys(data.flaky, "")
    flaky_intro = "These tests passed in some runs and failed in others."
    parts = [
        _render_failures("Still failing", intro, failing, level),
        _render_failures("Flaky", flaky_intro, flaky, level),
    ]
    return "\n\n".join(filter(None, parts))


def _render_failures(title: str, intro: str, reasons: dict[str, str], level: int) -> str:
    """Render tests with the reasons of their failures."""
    max_tests, max_length = (40, 160) if level == 0 else (12, 60)
    lines = []
    for test, why in list(reasons.items())[:max_tests]:
        reason = format_code(why, max_length)
        lines.append(f"- {format_code(test or 'the whole suite', 160)}{': ' if reason else ''}{reason}")
    return _render_section(f"{title} ({len(reasons):,})", intro, lines, max(0, len(reasons) - max_tests), "tests")


# What the branch contains


def render_flagged(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the edits that a person should look at, with their findings and evidence."""
    rows = facts.flagged
    shown = rows[: _MAX_ITEMS.get(level + 1, len(rows))]
    lines = []
    for commit, change in shown:
        lines.append(f"- {_format_change(change, commit, 100 if level == 0 else 40)}")
        findings = _list_findings(change, level)
        max_findings = (8, 2, 1)[min(level, 2)]
        lines += [f"  - {line}" for line in findings[:max_findings]]
        if len(findings) > max_findings:
            lines.append(f"  - and {len(findings) - max_findings} more")
        if level == 0 and commit.kind == "flagged":
            lines += _render_evidence(facts, change, "  ")
    intro = (
        "The tests pass with these edits. Each edit also changes what a test checks, or a file with special rules. "
        "Please decide whether it is right."
    )
    return _render_section(f"Review these edits ({len(rows):,})", intro, lines, len(rows) - len(shown), "edits")


def _render_evidence(facts: PullRequestFacts, change: Change, indent: str) -> list[str]:
    """Return the author, the results and the transcript of a change as sub-items."""
    result = format_result(facts, change, 0)
    lines = [f"{indent}- {format_authors(facts, change, 4)}"]
    if result:
        lines.append(f"{indent}- {result}")
    transcript = render_transcript(facts, change)
    if transcript:
        first, *others = transcript
        lines += [f"{indent}- {first}", *(f"{indent}  {line}".rstrip() for line in others)]
    return lines


def _list_findings(change: Change, level: int) -> list[str]:
    """Return the findings of an edit as lines; equal texts appear once, with all their locations."""
    max_length = (240, 100, 60)[min(level, 2)]
    locations_by_text: dict[str, list[str]] = {}
    for finding in change.findings:
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
    intro = "Each fix has its own commit. The fix with the most evidence comes first."
    return _render_section(f"Fixes ({len(rows):,})", intro, lines, len(rows) - len(shown), "fixes")


def _render_fix(facts: PullRequestFacts, number: int, commit: BranchCommit, change: Change, level: int) -> list[str]:
    """Return the lines of one fix, from all details (level 0) down to its title and commit."""
    list_marker = f"{number}."
    tests = commit.fixed_tests or change.fixed_tests
    if level >= 3:
        return [f"{list_marker} {_format_change(change, commit, 40)}"]
    if level == 2:
        fixed = f"fixes {format_count(len(tests), 'test')}"
        return [f"{list_marker} {_format_change(change, commit, 60)} · {fixed} · {format_agents(change)}"]
    if level == 1:
        fixed = f"fixes {format_list(tests, 1, 80)}" if tests else ""
        parts = [fixed, format_agents(change), format_result(facts, change, 1)]
        return [f"{list_marker} {_format_change(change, commit, 80)} · " + " · ".join(filter(None, parts))]
    indent = f"{' ' * len(list_marker)} "
    rows = [
        f"fixes {format_list(tests, 6)}" if tests else "no test failed without it",
        _format_resolution(facts, change),
        _format_advice(facts, change),
    ]
    return [
        f"{list_marker} {_format_change(change, commit, 120)}",
        *(f"{indent}- {row}" for row in rows if row),
        *_render_evidence(facts, change, indent),
    ]


def _format_change(change: Change, commit: BranchCommit, max_length: int) -> str:
    title = format_text(_KIND.sub("", change.title), max_length)
    return f"**{title}** {format_code(change.id)} in {format_code(commit.commit[:10])}"


def _format_advice(facts: PullRequestFacts, change: Change) -> str:
    """Return why an agent ranks the change before others with equal evidence, or an empty string."""
    for order in facts.integration.advised_orders:
        if change.id == order.changes[0]:
            agent, reason = format_code(order.agent, 60), format_text(order.reason, 200)
            others = format_list(order.changes[1:], 4)
            return f"the evidence for {others} is equally good; the agent {agent} ranks this fix first: {reason}"
    return ""


def _format_resolution(facts: PullRequestFacts, change: Change) -> str:
    """Return how a conflict of the change was resolved, or an empty string."""
    for row in facts.integration.resolved:
        if row.change == change.id:
            agent = f" (agent {format_code(row.agent, 80)})" if row.agent else ""
            by = format_text(describe_resolver(row.by), 40)
            return f"it conflicted with {format_list(row.others, 4)}; {by}{agent} resolved the conflict"
    return ""


def render_test_edits(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the edits of tests and docs in a collapsed block."""
    rows = facts.list_changes("test")
    if not rows:
        return ""
    commit = facts.list_commits("test")[0].commit[:10]
    size = f"+{sum(row.size.added for row in rows):,} −{sum(row.size.removed for row in rows):,} lines"
    heading = f"## Test and doc edits ({len(rows):,})\n\n"
    title = f"{format_count(len(rows), 'edit')} in commit <code>{commit}</code>, {size}"
    if level >= 3:
        return f"{heading}{format_count(len(rows), 'edit')} in commit {format_code(commit)}, {size}."
    if level == 2:
        paths = sorted({path for row in rows for path in row.paths})
        return heading + format_details(title, f"In {format_list(paths, 60, 80)}.")
    lines = []
    for row in rows:
        sources = f" · {format_list(row.paths, 2)} · {format_authors(facts, row, 2)}" if level == 0 else ""
        lines.append(f"- {format_text(row.title, 160 if level == 0 else 50)} {format_code(row.id)}{sources}")
    return heading + format_details(title, "\n".join(lines))


# What the branch does not contain


def render_excluded(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the excluded changes by kind of reason, each with its reason and evidence."""
    rows = facts.integration.excluded
    if not rows:
        return ""
    reasons = sort_known_first({row.why for row in rows}, list(_EXCLUSION_TITLES))
    max_changes = _MAX_ITEMS.get(level, len(rows))
    lines = [
        f"Show a change: `mngr tmr changes {facts.run} CHANGE --diff`. "
        f"Include it: `mngr tmr integrate {facts.run} --with CHANGE`."
    ]
    for reason in reasons:
        matching = [row for row in rows if row.why == reason]
        lines += ["", f"**{format_text(_EXCLUSION_TITLES.get(reason, reason))} ({len(matching):,})**", ""]
        for row in matching[:max_changes]:
            lines += _format_exclusion(row, level)
        if len(matching) > max_changes:
            lines.append(f"- and {len(matching) - max_changes} more: `mngr tmr changes {facts.run}`")
    return f"## Excluded changes ({len(rows):,})\n\n" + "\n".join(lines)


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

    Reasons that are questions to people appear in the section of `render_questions` instead.
    """
    question_titles = {row.title for row in _list_questions(facts, 2)}  # these are shown at every level
    questions = [row for row in facts.excluded_groups if row.reason in question_titles]
    rows = [row for row in facts.excluded_groups if row.reason not in question_titles]
    task_count = sum(row.count for row in facts.excluded_groups)
    if not facts.excluded_groups:
        return ""
    heading = f"## Tasks without a change ({task_count:,})\n\n"
    summary = f"{format_count(task_count, 'task')} for {format_count(len(facts.excluded_groups), 'reason')}"
    if level >= 3:
        return f"{heading}{summary}: `mngr tmr status {facts.run}`."
    max_reasons = (60, 60, 25)[level]
    max_length = (200, 100, 80)[level]
    max_tasks = (4, 1, 1)[level]
    lines = [
        f"- {format_count(row.count, 'task')}: {format_text(row.reason, max_length)} · {format_list(row.tasks, max_tasks)}"
        for row in rows[:max_reasons]
    ]
    rest = rows[max_reasons:]
    if rest:
        lines.append(f"- and {format_count(sum(row.count for row in rest), 'task')} for {len(rest)} other reasons")
    if questions:
        slugs = [slug for row in questions for slug in row.tasks]
        shown = format_list(slugs, (8, 2, 1)[level])
        lines.append(f"- {format_count(len(slugs), 'task')}: the agent asks a question, see above · {shown}")
    body = "\n".join(lines)
    return heading + (format_details(summary, body) if len(lines) > _MAX_VISIBLE_LINES else body)


def render_questions(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the questions that agents raise for people."""
    rows, lines = _list_questions(facts, level), []
    unrepaired = {cause.why: cause for cause in facts.unrepaired_causes}
    for row in rows:
        kind = _QUESTION_TITLES.get(row.kind) or format_text(row.kind.replace("_", " ").lower(), 30)
        title = format_text(row.title, 160 if level == 0 else 120)
        raised_by = f" ({format_count(row.count, 'task')})" if row.count > 1 else ""
        parts = [f"- **{kind}**{raised_by}: {title}"]
        root_cause = unrepaired.pop(row.title, None)
        if root_cause is not None:
            parts.append(f"root cause {format_code(root_cause.root_cause)} of {_count_tests(root_cause.tests)}")
        if level == 0:
            names = [] if root_cause is not None else _list_tests(facts, row)
            parts += [f"{choose_noun(len(names), 'test')} {format_list(names, 2)}" if names else ""]
            parts += [_format_detail(row), format_list([_format_location(place) for place in row.locations], 3)]
        lines.append(" · ".join(filter(None, parts)))
    for cause in list(unrepaired.values())[: _MAX_QUESTIONS[min(level, 2)] // 2]:
        name, tests = format_code(cause.root_cause), _count_tests(cause.tests)
        lines.append(f"- **Not repaired**: root cause {name} of {tests}: {format_text(cause.why, 160)}")
    hidden_count = len(facts.escalations) - len(rows)
    intro = "The agents could not decide these alone."
    return _render_section("Questions for you", intro, lines, hidden_count, "questions")


def _list_tests(facts: PullRequestFacts, row: EscalationGroup) -> list[str]:
    """Return the tests of the tasks that raise a question."""
    data = {task.task.slug: {"test": task.task.title, **task.task.data} for task in facts.tasks}
    return [data[slug]["test"] for slug in row.tasks if data.get(slug, {}).get("kind") in ("test", "root_cause")]


def _count_tests(tests: Sequence[str]) -> str:
    return format_count(len(tests), "failing test")


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


def _render_section(title: str, intro: str, lines: Sequence[str], hidden_count: int, noun: str) -> str:
    if not lines:
        return ""
    more = [f"\nand {hidden_count} more {noun}"] if hidden_count else []
    return f"## {title}\n\n{intro}\n\n" + "\n".join([*lines, *more])
