"""The tiles at the top of a report: tasks, baseline, verdicts, cost and time, each a number with a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mngr.base.size_format import choose_noun, format_count
from mngr.mapreduce.journal.host_costs import HostCosts
from mngr.mapreduce.journal.run_state import ACTIVE_STATES
from mngr.tmr.prepare.journal_facts import BaselineDone, list_facts
from mngr.tmr.prepare.verdict_of_one_test import (
    FAILS_ALONE,
    FAILS_IN_SUITE,
    combine_runs,
    describe_verdict,
    explain_verdict,
)
from mngr.tmr.verify.receipt import VERDICTS
from mngr.web.html_text import (
    escape_plain,
    format_dollars,
    format_duration,
    render_chip,
    shorten_number,
    to_class_name,
)
from mngr.web.report.report_data import WORST_FIRST, ReportFacts, ReportTask, count_in_order

_CLAIMS = ("fixed", "improved", "unchanged", "blocked", "failed")
_BASELINE_VERDICTS = ("fail", "flaky", FAILS_IN_SUITE, FAILS_ALONE, "pass", "skip")
_MAX_NAMES = 5  # test names that a tile shows


def render_tiles(facts: ReportFacts) -> str:
    """Return all tiles of a run."""
    outcomes = count_in_order((task.outcome for task in facts.tasks), WORST_FIRST)
    tiles = [_render_tile(str(len(facts.tasks)), choose_noun(len(facts.tasks), "task"), _render_bar(outcomes))]
    if facts.plan.kind != "map":  # `mngr map` has no tests and no receipts.
        tiles += [_render_baseline_tile(facts), _render_verdict_tile(facts.tasks)]
    tiles += [_render_cost_tile(facts), _render_duration_tile(facts)]
    return f'<div class="tiles">{"".join(tiles)}</div>'


def _render_tile(number: str, label: str, details: str, kind: str = "") -> str:
    return f'<div class="tile {kind}"><p><b>{number}</b> {label}</p>{details}</div>'


def _render_bar(counts: Mapping[str, int]) -> str:
    """Return a bar that shows the shares of a whole, with the counts as its legend."""
    return _render_labelled_bar(counts, {name: f"{count} {name}" for name, count in counts.items()})


def _render_labelled_bar(counts: Mapping[str, int], labels: Mapping[str, str]) -> str:
    """Return a bar with its own legend; nothing without counts."""
    if not counts:
        return ""
    legend = "".join(
        f'<span class="{to_class_name(name)}"><i></i>{escape_plain(label, 200)}</span>'
        for name, label in labels.items()
    )
    return f'{_render_strip(counts)}<div class="key">{legend}</div>'


def _render_strip(counts: Mapping[str, int]) -> str:
    """Return the bar without the legend."""
    total = sum(counts.values())
    parts = "".join(
        f'<i class="{to_class_name(name)}" title="{count} {escape_plain(name, 60)}" style="flex:{count / total:.4f}"></i>'
        for name, count in counts.items()
    )
    return f'<div class="bar">{parts}</div>'


def _render_baseline_tile(facts: ReportFacts) -> str:
    """Return the tile of the tests before any change."""
    baselines = list_facts(facts.run_state, BaselineDone)
    if not baselines:
        run_count = sum(len(runs) for runs in facts.baseline_runs.values())
        return _render_tile(str(run_count), f"{choose_noun(run_count, 'test run')} before any change", "")
    baseline = baselines[-1]
    counts = {name: baseline.counts[name] for name in _BASELINE_VERDICTS if baseline.counts.get(name)}
    labels = {name: f"{count} {describe_verdict(name)}" for name, count in counts.items()}
    reuse = f"<p>{baseline.describe_reuse()}.</p>" if baseline.reused else ""
    details = _render_labelled_bar(counts, labels) + _explain_dependent_tests(facts, counts) + reuse
    return _render_tile(str(baseline.tests), f"{choose_noun(baseline.tests, 'test')} before any change", details)


def _explain_dependent_tests(facts: ReportFacts, counts: Mapping[str, int]) -> str:
    """Name the tests whose outcome depends on other tests, and explain what that means."""
    texts = []
    for verdict in (FAILS_IN_SUITE, FAILS_ALONE):
        if counts.get(verdict):
            names = [test for test, runs in facts.baseline_runs.items() if combine_runs(runs) == verdict]
            shown = ", ".join(escape_plain(name, 200) for name in names[:_MAX_NAMES])
            more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            texts.append(f"<p>{shown}{more}. {explain_verdict(verdict)}</p>")
    return "".join(texts)


def _render_verdict_tile(tasks: Sequence[ReportTask]) -> str:
    """Return the tile of mngr's verdicts on the claims."""
    verdicts = count_in_order((task.verdict for task in tasks), VERDICTS)
    details = _render_strip(verdicts) + _render_claim_matrix(tasks)
    confirmed = verdicts.get("confirmed", 0)
    return _render_tile(str(confirmed), f"{choose_noun(confirmed, 'claim')} confirmed by mngr", details, "wide")


def _render_claim_matrix(tasks: Sequence[ReportTask]) -> str:
    """Return a table of the claims of the agents against the verdicts of mngr."""
    claims = count_in_order((task.claimed for task in tasks), _CLAIMS)
    verdicts = count_in_order((task.verdict for task in tasks), VERDICTS)
    pairs = Counter((task.claimed, task.verdict) for task in tasks)
    head = "".join(f"<th>{render_chip(verdict)}</th>" for verdict in verdicts)
    rows = []
    for claim in claims:
        cells = "".join(_render_matrix_cell(verdict, pairs[claim, verdict]) for verdict in verdicts)
        rows.append(f"<tr><th>{render_chip(claim)}</th>{cells}")
    return (
        f'<table class="matrix"><tr><td class="quiet">agent claims ↓ mngr saw →</td>{head}</tr>{"".join(rows)}</table>'
    )


def _render_matrix_cell(verdict: str, count: int) -> str:
    class_name = to_class_name(verdict)
    return f'<td class="{class_name}">{count}</td>' if count else f'<td class="{class_name} none">·</td>'


def _render_cost_tile(facts: ReportFacts) -> str:
    """Return the tile of the money and the tokens, by purpose."""
    budget = facts.status.budget
    tokens, labels = {}, {}
    for purpose, usage in sorted(budget.usage_by_purpose.items(), key=lambda item: -item[1].tokens):
        if usage.tokens:
            tokens[purpose] = usage.tokens
            labels[purpose] = f"{purpose} {shorten_number(usage.tokens)}, {format_dollars(usage.cost_usd)}"
    notes = [f"{shorten_number(budget.tokens)} tokens" if budget.tokens else "no model tokens used"]
    if budget.tokens_before_edit:
        notes.append(f"{shorten_number(budget.tokens_before_edit)} on average before an agent's first edit")
    if budget.hosts.made:
        notes.append(_describe_hosts(budget.hosts))
    details = f'{_render_labelled_bar(tokens, labels)}<p class="quiet">{" · ".join(notes)}</p>'
    return _render_tile(format_dollars(budget.cost_usd), "spent", details)


def _describe_hosts(hosts: HostCosts) -> str:
    price = "" if hosts.cost_usd is None else f", {format_dollars(hosts.cost_usd)}"
    return f"{hosts.hours:.2f} host-hours on {format_count(hosts.made, 'host')}{price}"


def _render_duration_tile(facts: ReportFacts) -> str:
    """Return the tile of the duration and of the largest number of parallel agents.

    A task whose claim mngr verifies has no agent any more.
    """
    spans = [span for task in facts.tasks for span in task.spans if span.state not in ("queued", "parked")]
    note = "no agent has started"
    if spans:
        total = sum(span.end - span.begin for span in spans)
        peak = _count_parallel([(span.begin, span.end) for span in spans if span.state in ACTIVE_STATES])
        agents = format_count(peak, "agent")
        note = f"up to {agents} at the same time; {format_duration(total)} if the tasks had run one after the other"
    duration = format_duration(facts.ended_at - facts.started_at)
    return _render_tile(duration, "total time", f'<p class="quiet">{note}</p>')


def _count_parallel(periods: Sequence[tuple[float, float]]) -> int:
    """Return the largest number of periods that contain the same moment."""
    steps = [(begin, 1) for begin, _ in periods] + [(end, -1) for _, end in periods]
    running = peak = 0
    for _, step in sorted(steps):
        running += step
        peak = max(peak, running)
    return peak
