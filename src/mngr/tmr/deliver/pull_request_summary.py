"""Renders the short parts of a pull request: its verdict, outcomes of tasks, cost, and how to change it."""

from __future__ import annotations

from mngr.base import time_format
from mngr.mapreduce.journal.agent_usage import AgentUsage, add_usage, sum_usages
from mngr.tmr.changes.integration_record import AgentSummary, CheckResult, SuiteCounts
from mngr.tmr.deliver.facts import PullRequestFacts
from mngr.tmr.deliver.markdown import (
    format_cell,
    format_code,
    format_count,
    format_list,
    format_text,
    redact_line,
    sort_known_first,
)
from mngr.tmr.verify.receipt import find_verdict

_VERDICT_MARKS = {"green": "✅ **Green.**", "red": "❌ **Red.**"}
_OUTCOMES = ("fixed", "improved", "unchanged", "refuted", "flaky", "unverified", "blocked", "failed")
_VERDICTS = ("confirmed", "refuted", "flaky", "unverified", "no receipt")
_MAX_PROSE = 1500  # characters


# Title and head


def render_title(facts: PullRequestFacts) -> str:
    """Return the title, with counts and without untrusted text."""
    fixes, edits = len(facts.list_changes("fix")), len(facts.list_changes("test", "flagged"))
    excluded_count = len(facts.excluded_changes)
    contents = _format_contents(fixes, "", edits, "test edit") or "Nothing to merge"
    excluded_text = f", {excluded_count} not in" if excluded_count else ""
    prefix = "RED: " if facts.integration.verdict == "red" else ""
    return redact_line(
        f"{prefix}{contents} of {format_count(len(facts.tasks), 'task')}{excluded_text} ({facts.run})", 200
    )


def render_head(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the verdict, the contents of the branch, and the outcomes of the tasks."""
    data = facts.integration
    fixes, edits = len(facts.list_changes("fix")), len(facts.list_changes("test", "flagged"))
    fixed_text = f" (turning {format_count(len(facts.fixed_tests), 'test')} green)" if facts.fixed_tests else ""
    parts = []
    if fixes + edits:
        parts.append(_format_contents(fixes, fixed_text, edits, "test or doc edit"))
    if facts.excluded_changes:
        parts.append(f"**{format_count(len(facts.excluded_changes), 'change')} not in**, each with its reason")
    if flagged := facts.flagged:
        parts.append(f"**{format_count(len(flagged), 'edit')} to look at**")
    if data.open:
        parts.append(f"**{format_count(data.open, 'task')} not settled yet**")
    if data.only:
        parts.append(f"only {'fixes' if data.only == 'impl' else 'tests'} were asked for")
    verdict = f"{_format_verdict(facts)}  \n{'; '.join(parts)}." if parts else _format_verdict(facts)
    return "\n".join(
        [
            verdict,
            "",
            _render_outcome_table(facts),
            "",
            _format_footer(facts),
            *(["", f"⚠️ {format_text(facts.missing_sandbox)}"] if facts.missing_sandbox else []),
            *_render_agent_text(data.prose),
        ]
    )


def _format_contents(fixes: int, more: str, edits: int, noun: str) -> str:
    """Return the number of fixes and of edits, without those that are zero."""
    parts = [
        f"{format_count(fixes, 'fix', 'fixes')}{more}" if fixes else "",
        format_count(edits, noun) if edits else "",
    ]
    return " and ".join(filter(None, parts))


def _format_verdict(facts: PullRequestFacts) -> str:
    """Return the verdict of the integration as one sentence."""
    data = facts.integration
    if data.verdict == "empty":
        return "⚪ **Nothing to merge.**"
    mark = _VERDICT_MARKS.get(data.verdict, f"**{format_text(data.verdict)}**")
    if data.verdict == "red":
        verb = "fails" if len(data.red) == 1 else "fail"
        failing = f"{format_count(len(data.red), 'test')} that passed before {verb} at {format_code(data.head[:10])}"
        return f"{mark} {failing}; {format_code(data.branch)} was not moved."
    commit = data.delivered or data.head
    location = f"{format_code(data.branch)} ({format_code(commit[:10])})"
    still_red = len(data.red_before)
    if data.tests is not None:
        return f"{mark} {_format_passing(data.tests, location, still_red, len(data.flaky))}."
    exception = f", apart from {format_count(still_red, 'test')} red before and still" if still_red else ""
    return f"{mark} The whole suite passes on {location}{exception}."


def _format_passing(tests: SuiteCounts, location: str, still_red: int, flaky: int) -> str:
    """Return how many tests pass, how many of them failed before, and the state of the others."""
    quantity = "All" if tests.passed == tests.all else f"{tests.passed:,} of"
    passing = f"{quantity} {format_count(tests.all, 'test')} pass on {location}"
    if tests.green:
        passing += f", {len(tests.green):,} of them red before"
    parts = [passing]
    if still_red == 1:
        parts.append("1 was red before and still is")
    elif still_red:
        parts.append(f"{still_red:,} were red before and still are")
    if tests.skipped:
        parts.append(f"{tests.skipped:,} skipped")
    if flaky:
        parts.append(f"{flaky:,} seen both ways")
    return "; ".join(parts)


def _render_outcome_table(facts: PullRequestFacts) -> str:
    """Render a table of the tasks by outcome and receipt verdict."""
    counts: dict[tuple[str, str], int] = {}
    for task in facts.tasks:
        key = str(task.outcome or task.state), find_verdict(task.check) or "no receipt"
        counts[key] = counts.get(key, 0) + 1
    outcomes = sort_known_first({outcome for outcome, _ in counts}, _OUTCOMES)
    verdicts = sort_known_first({verdict for _, verdict in counts}, _VERDICTS)
    rows = [["tasks", *verdicts, "all"]]
    for outcome in outcomes:
        numbers = [counts.get((outcome, verdict), 0) for verdict in verdicts]
        rows.append([outcome, *(str(number or "–") for number in numbers), str(sum(numbers))])
    totals = [sum(counts.get((outcome, verdict), 0) for outcome in outcomes) for verdict in verdicts]
    if len(outcomes) > 1:
        rows.append(["all", *map(str, totals), str(sum(totals))])
    head_, *lines = (f"| {' | '.join(format_cell(value, 30) for value in row)} |" for row in rows)
    return "\n".join([head_, f"|:--{'|--:' * (len(verdicts) + 1)}|", *lines])


def _format_footer(facts: PullRequestFacts) -> str:
    parts = [_format_check(check) for check in facts.integration.checks]
    total = _sum_usage(facts)
    money = None if total is None else total.cost_usd
    if money:
        parts.append(f"${money:.2f}")
    links = f"paths are in `.mngr/runs/{facts.run}/`, pages: `mngr tmr report {facts.run}`"
    return " · ".join([*parts, *_format_durations(facts), links])


def _format_check(check: CheckResult) -> str:
    failure_mark = "❌" if check.was_ok else "as before"
    return f"{format_text(check.name, 30)} {'✅' if check.ok else failure_mark}"


def _render_agent_text(summary: AgentSummary | None) -> list[str]:
    """Render an agent's few paragraphs as a quotation."""
    if summary is None:
        return []
    blocks = [format_text(block, _MAX_PROSE) for block in summary.words[:_MAX_PROSE].split("\n\n")]
    paragraphs = [block for block in blocks if block][:4]
    if not paragraphs:
        return []
    lines = ["", f"> _{format_text(summary.agent or 'an agent', 80)} says:_ {paragraphs[0]}"]
    for paragraph in paragraphs[1:]:
        lines += [">", f"> {paragraph}"]
    return lines


# Suite, cost and instructions


def render_suite(facts: PullRequestFacts, level: int = 0) -> str:
    """Render further facts about the test suite."""
    lines = []
    data = facts.integration
    max_tests = 10 if level == 0 else 3
    for tests, noun in ((data.red_before, "red before and still"), (data.flaky, "seen both ways")):
        if tests:
            lines.append(f"- {format_count(len(tests), 'test')} {noun}: {format_list(tests, max_tests)}")
    if data.partly:
        lines.append(f"- {format_count(data.partly, 'commit')} below the head: only the nearest tests were run there")
    return "## The suite\n\n" + "\n".join(lines) if lines else ""


def render_cost(facts: PullRequestFacts, level: int = 0) -> str:
    """Render money and time."""
    lines = []
    total, kinds = _sum_usage(facts), _sum_by_kind(facts)
    if total is not None:
        parts = ", ".join(f"{format_text(kind, 30)} {_format_money(used)}" for kind, used in kinds.items())
        read, wrote = total.input_tokens, total.output_tokens
        lines.append(
            f"- cost: {_format_money(total)} ({parts}); {read:,} tokens in, {wrote:,} out; agents: {format_code(facts.agent)}"
        )
    data = facts.integration
    lines += [f"- agents: {duration}" for duration in _format_durations(facts)]
    duration = time_format.format_duration(round(data.seconds))
    processes = format_count(data.runs.processes, "test process", "test processes")
    test_runs = format_count(data.runs.tests, "test run")
    lines.append(f"- integration: {duration}, {processes}, {test_runs}, {data.runs.cached} results known before")
    return "## Cost and time\n\n" + "\n".join(lines)


def _sum_by_kind(facts: PullRequestFacts) -> dict[str, AgentUsage]:
    """Return the usage of all tasks and of the integration, by agent kind."""
    usage_by_kind: dict[str, AgentUsage] = {}
    for row in (*(task.usage_by_purpose for task in facts.tasks), facts.integration.spend):
        for kind, used in row.items():
            usage_by_kind[kind] = add_usage(usage_by_kind.get(kind, AgentUsage()), used)
    return usage_by_kind


def _sum_usage(facts: PullRequestFacts) -> AgentUsage | None:
    """Return the whole usage, or None when nothing is known."""
    usages = _sum_by_kind(facts).values()
    return sum_usages(usages) if usages else None


def _format_money(used: AgentUsage) -> str:
    return "price not known" if used.cost_usd is None else f"${used.cost_usd:.2f}"


def _format_durations(facts: PullRequestFacts) -> list[str]:
    began = [time_format.parse_timestamp(task.began_at) for task in facts.tasks if task.began_at]
    ended = [time_format.parse_timestamp(task.ended_at) for task in facts.tasks if task.ended_at]
    return (
        [f"{time_format.format_duration(round(max(ended) - min(began)))} from the first task to the last"]
        if began and ended
        else []
    )


def render_instructions(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the commands that change the branch."""
    rows = (
        f'mngr tmr integrate {facts.run} --without CHANGE --reason "…"   # and the branch is made and tested again',
        f"mngr tmr integrate {facts.run} --with CHANGE",
        'mngr tmr redo CHANGE -m "…"   # by the agent that made it',
    )
    return "## Change your mind\n\n```sh\n" + "\n".join(rows) + "\n```"
