"""Renders the short parts of a pull request: its verdict, outcomes of tasks, cost, and how to change it."""

from __future__ import annotations

from typing import Any

from mngr.base import clock
from mngr.mapreduce.run_state import add_usage
from mngr.tmr.deliver.facts import PullRequestFacts
from mngr.tmr.deliver.markdown import (
    format_cell,
    format_code,
    format_count,
    format_list,
    format_text,
    sanitize_line,
    sort_known_first,
)

Row = dict[str, Any]


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
    prefix = "RED: " if facts.integration["verdict"] == "red" else ""
    return sanitize_line(
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
    if data.get("open"):
        parts.append(f"**{format_count(data['open'], 'task')} not settled yet**")
    if data.get("only"):
        parts.append(f"only {'fixes' if data['only'] == 'impl' else 'tests'} were asked for")
    verdict = f"{_format_verdict(facts)}  \n{'; '.join(parts)}." if parts else _format_verdict(facts)
    return "\n".join(
        [
            verdict,
            "",
            _render_outcome_table(facts),
            "",
            _format_footer(facts),
            *_render_agent_text(facts.integration.get("prose") or {}),
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
    location = f"{format_code(data['branch'])} ({format_code(str(data.get('delivered') or data['head'])[:10])})"
    if data["verdict"] == "empty":
        return "⚪ **Nothing to merge.**"
    red_before = data.get("red_before") or []
    mark = _VERDICT_MARKS.get(data["verdict"], f"**{format_text(data['verdict'])}**")
    if data["verdict"] == "red":
        verb = "fails" if len(data["red"]) == 1 else "fail"
        failing = f"{format_count(len(data['red']), 'test')} that passed before {verb} at {format_code(str(data['head'])[:10])}"
        return f"{mark} {failing}; {format_code(data['branch'])} was not moved."
    if tests := data.get("tests"):
        return f"{mark} {_format_passing(tests, location, len(red_before), len(data.get('flaky') or ()))}."
    exception = f", apart from {format_count(len(red_before), 'test')} red before and still" if red_before else ""
    return f"{mark} The whole suite passes on {location}{exception}."


def _format_passing(tests: Row, location: str, still_red: int, flaky: int) -> str:
    """Return how many tests pass, how many of them failed before, and the state of the others."""
    passed, green = tests["pass"], len(tests["green"])
    quantity = "All" if passed == tests["all"] else f"{passed:,} of"
    passing = f"{quantity} {format_count(tests['all'], 'test')} pass on {location}"
    parts = [
        passing + (f", {green:,} of them red before" if green else ""),
        f"{still_red:,} {'was' if still_red == 1 else 'were'} red before and still {'is' if still_red == 1 else 'are'}"
        if still_red
        else "",
        f"{tests['skip']:,} skipped" if tests["skip"] else "",
        f"{flaky:,} seen both ways" if flaky else "",
    ]
    return "; ".join(filter(None, parts))


def _render_outcome_table(facts: PullRequestFacts) -> str:
    """Render a table of the tasks by outcome and receipt verdict."""
    counts: dict[tuple[str, str], int] = {}
    for task in facts.tasks:
        key = str(task.outcome or task.state), str((task.check or {}).get("verdict") or "no receipt")
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
    marks = [
        f"{format_text(row['name'], 30)} {'✅' if row['ok'] else '❌' if row.get('was_ok', True) else 'as before'}"
        for row in facts.integration.get("checks") or ()
    ]
    money = _sum_usage(facts).get("cost_usd")
    parts = [*marks, *([f"${money:.2f}"] if money else []), *_format_durations(facts)]
    links = f"paths are in `.mngr/runs/{facts.run}/`, pages: `mngr tmr report {facts.run}`"
    return " · ".join([*parts, links])  # fmt: skip


def _render_agent_text(row: Row) -> list[str]:
    """Render an agent's few paragraphs as a quotation."""
    text = str(row.get("words") or "")
    paragraphs = [
        paragraph
        for paragraph in (format_text(block, _MAX_PROSE) for block in text[:_MAX_PROSE].split("\n\n"))
        if paragraph
    ][:4]
    lines = [line for paragraph in paragraphs for line in (">", f"> {paragraph}")]
    return (
        ["", f"> _{format_text(row.get('agent') or 'an agent', 80)} says:_ {lines[1][2:]}", *lines[2:]]
        if paragraphs
        else []
    )


# Suite, cost and instructions


def render_suite(facts: PullRequestFacts, level: int = 0) -> str:
    """Render further facts about the test suite."""
    lines = []
    for name, noun in (("red_before", "red before and still"), ("flaky", "seen both ways")):
        if rows := facts.integration.get(name):
            lines.append(f"- {format_count(len(rows), 'test')} {noun}: {format_list(rows, (10, 3)[min(level, 1)])}")
    if partly := facts.integration.get("partly"):
        lines.append(f"- {format_count(partly, 'commit')} below the head: only the nearest tests were run there")
    return "## The suite\n\n" + "\n".join(lines) if lines else ""


def render_cost(facts: PullRequestFacts, level: int = 0) -> str:
    """Render money and time."""
    lines = []
    total, kinds = _sum_usage(facts), _sum_by_kind(facts)
    if kinds:
        parts = ", ".join(f"{format_text(kind, 30)} {_format_money(used)}" for kind, used in kinds.items())
        read, wrote = total["input_tokens"], total["output_tokens"]
        lines.append(
            f"- cost: {_format_money(total)} ({parts}); {read:,} tokens in, {wrote:,} out; agents: {format_code(facts.agent)}"
        )
    data = facts.integration
    runs = data.get("runs") or {}
    lines += [f"- agents: {duration}" for duration in _format_durations(facts)]
    lines.append(
        f"- integration: {clock.format_duration(round(data.get('seconds') or 0))}, {format_count(runs.get('processes', 0), 'test process', 'test processes')}, "
        f"{format_count(runs.get('tests', 0), 'test run')}, {runs.get('cached', 0)} results known before"
    )  # fmt: skip
    return "## Cost and time\n\n" + "\n".join(lines)


def _sum_by_kind(facts: PullRequestFacts) -> dict[str, Row]:
    """Return the usage of all tasks and of the integration, by agent kind."""
    rows = [*(task.spend for task in facts.tasks), facts.integration.get("spend") or {}]
    usage_by_kind: dict[str, Row] = {}
    for row in rows:
        for kind, used in row.items():
            usage_by_kind[kind] = add_usage(usage_by_kind.get(kind, {}), used) if used else usage_by_kind.get(kind, {})
    return {kind: used for kind, used in usage_by_kind.items() if used}


def _sum_usage(facts: PullRequestFacts) -> Row:
    total: Row = {}
    for used in _sum_by_kind(facts).values():
        total = add_usage(total, used)
    return total


def _format_money(used: Row) -> str:
    cost = used.get("cost_usd")
    return "price not known" if cost is None else f"${cost:.2f}"


def _format_durations(facts: PullRequestFacts) -> list[str]:
    began = [clock.parse_timestamp(task.began_at) for task in facts.tasks if task.began_at]
    ended = [clock.parse_timestamp(task.ended_at) for task in facts.tasks if task.ended_at]
    return (
        [f"{clock.format_duration(round(max(ended) - min(began)))} from the first task to the last"]
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
