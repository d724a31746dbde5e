"""Renders the short parts of a pull request: the result, the caveats, the outcomes, cost, and how to change it."""

from __future__ import annotations

from mngr.base import time_format
from mngr.base.size_format import format_count
from mngr.mapreduce.journal.agent_usage import AgentUsage, add_usage, sum_usages
from mngr.tmr.changes.integration_record import AgentSummary, CheckResult
from mngr.tmr.deliver.markdown import (
    format_cell,
    format_code,
    format_text,
    redact_line,
    sort_known_first,
)
from mngr.tmr.deliver.pull_request_facts import PullRequestFacts, describe_missing_sandbox
from mngr.tmr.verify.receipt import find_verdict

_OUTCOMES = ("fixed", "improved", "unchanged", "refuted", "flaky", "unverified", "blocked", "failed")
_VERDICTS = ("confirmed", "refuted", "flaky", "unverified", "no receipt")
_MAX_PROSE = 1500  # characters


# Title and head


def render_title(facts: PullRequestFacts) -> str:
    """Return the title, with counts and without untrusted text."""
    fixes, edits = len(facts.list_changes("fix")), len(facts.list_changes("test", "flagged"))
    contents = _format_contents(fixes, edits, "test edit") or "Nothing to merge"
    totals = facts.integration.totals
    parts = [format_count(len(totals.regressions), "regression")] if totals.regressions else []
    parts.append(f"{format_count(len(totals.fixed), 'test')} fixed")
    parts.append(f"{len(totals.still_failing):,} still failing")
    return redact_line(f"{contents}: {', '.join(parts)} ({facts.run})", 200)


def render_head(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the result, the contents of the branch, the caveats, the isolation and the outcomes of the tasks."""
    data = facts.integration
    caveats = _list_caveats(facts)
    return "\n".join(
        [
            data.totals.describe(),
            "",
            " ".join(filter(None, [_describe_suite(facts), _describe_contents(facts)])),
            *(["", "**Caveats**", "", *(f"- {caveat}" for caveat in caveats)] if caveats else []),
            "",
            _describe_isolation(facts),
            "",
            _render_outcome_table(facts),
            *_render_agent_text(data.summary),
        ]
    )


def _format_contents(fixes: int, edits: int, noun: str) -> str:
    """Return the number of fixes and of edits, without those that are zero."""
    parts = [format_count(fixes, "fix", "fixes") if fixes else "", format_count(edits, noun) if edits else ""]
    return " and ".join(filter(None, parts))


def _describe_suite(facts: PullRequestFacts) -> str:
    """Return how many tests pass, and on which commit."""
    data = facts.integration
    if data.verdict == "empty":
        return "There is nothing to merge."
    location = f"{format_code(data.branch)} ({format_code((data.delivered or data.head)[:10])})"
    if data.verdict == "red":
        location = f"the tested commit {format_code(data.head[:10])}"
    sentence = f"mngr ran the whole suite on {location}."
    if data.tests is not None:
        quantity = "All" if data.tests.passed == data.tests.all else f"{data.tests.passed:,} of"
        skipped = f", {data.tests.skipped:,} skipped" if data.tests.skipped else ""
        sentence = f"{quantity} {format_count(data.tests.all, 'test')} pass on {location}{skipped}."
    if data.verdict == "red":
        return f"{sentence} mngr did not move {format_code(data.branch)}, because of the regressions."
    return sentence


def _describe_contents(facts: PullRequestFacts) -> str:
    """Return what the branch has, what needs a review and what is excluded."""
    fixes, edits = len(facts.list_changes("fix")), len(facts.list_changes("test", "flagged"))
    sentences = []
    if fixes + edits:
        sentences.append(f"The branch has {_format_contents(fixes, edits, 'test or doc edit')}.")
    if flagged := len(facts.flagged):
        sentences.append(f"**{format_count(flagged, 'edit')} {'needs' if flagged == 1 else 'need'} your review.**")
    if excluded := len(facts.excluded_changes):
        noun = "change is" if excluded == 1 else "changes are"
        sentences.append(f"**{excluded:,} {noun} excluded**, each with its reason.")
    passing = [check.name for check in facts.integration.checks if check.ok]
    sentences += [f"The {format_text(name, 30)} check passes." for name in passing]
    return " ".join(sentences)


def _list_caveats(facts: PullRequestFacts) -> list[str]:
    """Return the limits of the result, a missing sandbox first."""
    data = facts.integration
    caveats = []
    if missing_sandbox := describe_missing_sandbox(facts.isolations):
        caveats.append(format_text(missing_sandbox, 400))
    caveats += [_describe_failed_check(check) for check in data.checks if not check.ok]
    if data.commits and data.tests is None:
        caveats.append("The suite did not end normally, so mngr cannot count single tests.")
    if data.open:
        verb = "is" if data.open == 1 else "are"
        caveats.append(f"{format_count(data.open, 'task')} {verb} not finished, so this result is not final.")
    if data.only:
        caveats.append(
            f"This branch has only the {'fixes' if data.only == 'impl' else 'test and doc edits'}, because the integration ran with --only {data.only}."
        )
    if data.partly_tested:
        commits = format_count(data.partly_tested, "commit")
        caveats.append(f"At {commits} below the head, mngr ran only the most closely related tests.")
    return caveats


def _describe_failed_check(check: CheckResult) -> str:
    """Return the name and command of a failed check, whether it passed before, and the last line of its output."""
    last_line = next((line for line in reversed(check.output.splitlines()) if line.strip()), "no output")
    before = "and passed before this run" if check.was_ok else "as before this run"
    command = f" ({format_code(check.command, 120)})" if check.command else ""
    return f"The {format_text(check.name, 30)} check{command} fails, {before}: {format_code(last_line, 200)}"


def _describe_isolation(facts: PullRequestFacts) -> str:
    """Return how mngr isolated the tests that it ran."""
    sandboxes = [isolation for isolation in facts.isolations if not isolation.startswith("none")]
    rooms = "mngr ran these tests itself, in clean rooms (fresh workspaces)"
    if not sandboxes:
        return f"{rooms} without a sandbox." if facts.isolations else f"{rooms}."
    suffix = ", and some of them without a sandbox" if len(sandboxes) < len(facts.isolations) else ""
    return f"{rooms} isolated by {'; or by '.join(format_text(name, 160) for name in sandboxes[:3])}{suffix}."


def _render_outcome_table(facts: PullRequestFacts) -> str:
    """Render a table of the tasks by outcome and receipt verdict, with an explanation."""
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
    explanation = (
        "The rows are the outcomes of the tasks, and the columns are the verdicts of their receipts. "
        "A task is one agent's work on one test or on one root cause, which several tests can share. "
        "A receipt is the record of what mngr saw when it re-ran the agent's claim."
    )
    return "\n".join([head_, f"|:--{'|--:' * (len(verdicts) + 1)}|", *lines, "", explanation])


def _render_agent_text(summary: AgentSummary | None) -> list[str]:
    """Render an agent's few paragraphs as a quotation."""
    if summary is None:
        return []
    blocks = [format_text(block, _MAX_PROSE) for block in summary.text[:_MAX_PROSE].split("\n\n")]
    paragraphs = [block for block in blocks if block][:4]
    if not paragraphs:
        return []
    lines = ["", f"> Summary by the agent {format_code(summary.agent or 'unknown', 80)}: {paragraphs[0]}"]
    for paragraph in paragraphs[1:]:
        lines += [">", f"> {paragraph}"]
    return lines


# Cost and instructions


def render_cost(facts: PullRequestFacts, level: int = 0) -> str:
    """Render agents, money and time."""
    lines = []
    kinds = ", ".join(f"{count:,} {format_code(kind, 40)}" for kind, count in sorted(facts.agent_kinds.items()))
    durations = _format_durations(facts)
    if kinds:
        lines.append(f"- Agents: {kinds}{', ' if durations else ''}{durations}")
    total, purposes = _sum_usage(facts), _sum_by_purpose(facts)
    if total is not None:
        parts = ", ".join(f"{format_text(purpose, 30)} {_format_money(used)}" for purpose, used in purposes.items())
        read, wrote = total.input_tokens, total.output_tokens
        lines.append(f"- Models: {_format_money(total)} ({parts}), {read:,} tokens in, {wrote:,} tokens out")
    data = facts.integration
    duration = time_format.format_duration(round(data.seconds))
    processes = format_count(data.runs.processes, "test process", "test processes")
    test_runs = format_count(data.runs.tests, "test run")
    cached = f"{format_count(data.runs.cached, 'earlier result')} reused"
    lines.append(f"- Integration: {duration}, {processes}, {test_runs}, {cached}")
    return "## Cost and time\n\n" + "\n".join(lines)


def _sum_by_purpose(facts: PullRequestFacts) -> dict[str, AgentUsage]:
    """Return the usage of all tasks and of the integration, by purpose."""
    usage_by_purpose: dict[str, AgentUsage] = {}
    for row in (*(task.usage_by_purpose for task in facts.tasks), facts.integration.usage_by_purpose):
        for purpose, used in row.items():
            usage_by_purpose[purpose] = add_usage(usage_by_purpose.get(purpose, AgentUsage()), used)
    return usage_by_purpose


def _sum_usage(facts: PullRequestFacts) -> AgentUsage | None:
    """Return the whole usage, or None when nothing is known."""
    usages = _sum_by_purpose(facts).values()
    return sum_usages(usages) if usages else None


def _format_money(used: AgentUsage) -> str:
    return "price unknown" if used.cost_usd is None else f"${used.cost_usd:.2f}"


def _format_durations(facts: PullRequestFacts) -> str:
    """Return the time from the first task to the last, or an empty string."""
    began = [time_format.parse_timestamp(task.began_at) for task in facts.tasks if task.began_at]
    ended = [time_format.parse_timestamp(task.ended_at) for task in facts.tasks if task.ended_at]
    if not began or not ended:
        return ""
    return f"{time_format.format_duration(round(max(ended) - min(began)))} from the start of the first to the end of the last"


def render_branch_commands(facts: PullRequestFacts, level: int = 0) -> str:
    """Render the commands that change the branch, and where the whole report is."""
    rows = (
        (
            f'mngr tmr integrate {facts.run} --without CHANGE --reason "…"',
            "exclude a change; mngr rebuilds and tests the branch",
        ),
        (f"mngr tmr integrate {facts.run} --with CHANGE", "include the change again"),
        ('mngr tmr redo CHANGE -m "…"', "ask the agent that made a change to revise it"),
        (f"mngr tmr report {facts.run} --open", "open the report with all evidence"),
    )
    width = max(len(command) for command, _ in rows)
    commands = "\n".join(f"{command:{width}}  # {comment}" for command, comment in rows)
    text = "The person who started this run can change the branch. CHANGE is an id from this text, such as `3fa9c1`."
    url = facts.integration.report_url
    link = f"\n\nThe whole report: <{url}>" if url else ""
    return f"## Change this branch\n\n{text}\n\n```sh\n{commands}\n```{link}"
