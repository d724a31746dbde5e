"""The facts for the tiles at the top of a report: tasks, baseline, verdicts, cost and time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
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
from mngr.web.report.report_data import WORST_FIRST, ReportFacts, ReportTask, count_in_order
from mngr.web.templates import format_dollars, shorten_number

_CLAIMS = ("fixed", "improved", "unchanged", "blocked", "failed")
_BASELINE_VERDICTS = ("fail", "flaky", FAILS_IN_SUITE, FAILS_ALONE, "pass", "skip")
_BAR_WIDTH = 1000.0  # Units of a whole bar.
_BAR_GAP = 4.0  # Units between two parts.
_MIN_PART = 8.0  # Units of the smallest part.


class BarPart(Struct):
    """A share of a whole, and where a bar shows it."""

    name: str
    count: int
    label: str
    begin: float
    width: float


class DependentTests(Struct):
    """Tests whose outcome depends on other tests, and what that means."""

    names: list[str]
    explanation: str


class BaselineTile(Struct):
    """The tests before any change."""

    tests: int
    bar: list[BarPart]
    dependent_tests: list[DependentTests]
    reuse: str  # The results that come from an earlier run, or nothing.


class ClaimRow(Struct):
    """How often each verdict followed one claim."""

    claim: str
    counts: list[int]  # In the order of the verdicts.


class VerdictTile(Struct):
    """The verdicts of mngr on the claims of the agents."""

    confirmed: int
    bar: list[BarPart]
    verdicts: list[str]
    rows: list[ClaimRow]


class DurationTile(Struct):
    """The duration of a run, and the largest number of parallel agents."""

    seconds: float
    peak: int  # 0 if no agent has started.
    seconds_one_by_one: float


class Tiles(Struct):
    """The facts of all tiles of a run."""

    task_count: int
    outcomes: list[BarPart]
    baseline_run_count: int  # The runs so far, while the baseline has not ended.
    baseline: BaselineTile | None
    verdicts: VerdictTile
    cost: list[BarPart]
    duration: DurationTile


def build_tiles(facts: ReportFacts) -> Tiles:
    """Return the facts of all tiles of a run."""
    outcomes = count_in_order((task.outcome for task in facts.tasks), WORST_FIRST)
    return Tiles(
        task_count=len(facts.tasks),
        outcomes=_build_counted_bar(outcomes),
        baseline_run_count=sum(len(runs) for runs in facts.baseline_runs.values()),
        baseline=_build_baseline_tile(facts),
        verdicts=_build_verdict_tile(facts.tasks),
        cost=_build_cost_bar(facts),
        duration=_build_duration_tile(facts),
    )


def _build_counted_bar(counts: Mapping[str, int]) -> list[BarPart]:
    return build_bar(counts, {name: f"{count} {name}" for name, count in counts.items()})


def build_bar(counts: Mapping[str, int], labels: Mapping[str, str]) -> list[BarPart]:
    """Return the parts of a bar from left to right. A small part is wide enough to be seen."""
    if not counts:
        return []
    free = _BAR_WIDTH - _BAR_GAP * (len(counts) - 1) - _MIN_PART * len(counts)
    total = sum(counts.values())
    parts, begin = [], 0.0
    for name, count in counts.items():
        width = _MIN_PART + max(0.0, free) * count / total
        parts.append(BarPart(name=name, count=count, label=labels[name], begin=round(begin, 1), width=round(width, 1)))
        begin += width + _BAR_GAP
    return parts


def _build_baseline_tile(facts: ReportFacts) -> BaselineTile | None:
    """Return the tile of the tests before any change, or None while they run."""
    baselines = list_facts(facts.run_state, BaselineDone)
    if not baselines:
        return None
    baseline = baselines[-1]
    counts = {name: baseline.counts[name] for name in _BASELINE_VERDICTS if baseline.counts.get(name)}
    labels = {name: f"{count} {describe_verdict(name)}" for name, count in counts.items()}
    return BaselineTile(
        tests=baseline.tests,
        bar=build_bar(counts, labels),
        dependent_tests=[
            _find_dependent_tests(facts, verdict) for verdict in (FAILS_IN_SUITE, FAILS_ALONE) if counts.get(verdict)
        ],
        reuse=baseline.describe_reuse() if baseline.reused else "",
    )


def _find_dependent_tests(facts: ReportFacts, verdict: str) -> DependentTests:
    names = [test for test, runs in facts.baseline_runs.items() if combine_runs(runs) == verdict]
    return DependentTests(names=names, explanation=explain_verdict(verdict))


def _build_verdict_tile(tasks: Sequence[ReportTask]) -> VerdictTile:
    """Return the tile of mngr's verdicts, with a table of the claims against the verdicts."""
    claims = count_in_order((task.claimed for task in tasks), _CLAIMS)
    verdicts = count_in_order((task.verdict for task in tasks), VERDICTS)
    pairs = Counter((task.claimed, task.verdict) for task in tasks)
    return VerdictTile(
        confirmed=verdicts.get("confirmed", 0),
        bar=_build_counted_bar(verdicts),
        verdicts=list(verdicts),
        rows=[ClaimRow(claim=claim, counts=[pairs[claim, verdict] for verdict in verdicts]) for claim in claims],
    )


def _build_cost_bar(facts: ReportFacts) -> list[BarPart]:
    """Return the tokens by purpose, the largest first."""
    usage_by_purpose = facts.status.budget.usage_by_purpose
    used = sorted(
        ((purpose, usage) for purpose, usage in usage_by_purpose.items() if usage.tokens),
        key=lambda item: -item[1].tokens,
    )
    labels = {
        purpose: f"{purpose} {shorten_number(usage.tokens)}, {format_dollars(usage.cost_usd)}"
        for purpose, usage in used
    }
    return build_bar({purpose: usage.tokens for purpose, usage in used}, labels)


def _build_duration_tile(facts: ReportFacts) -> DurationTile:
    """Return the duration, and the largest number of parallel agents.

    A task whose claim mngr verifies has no agent any more.
    """
    spans = [span for task in facts.tasks for span in task.spans if span.state not in ("queued", "parked")]
    return DurationTile(
        seconds=facts.ended_at - facts.started_at,
        peak=_count_parallel([(span.begin, span.end) for span in spans if span.state in ACTIVE_STATES]),
        seconds_one_by_one=sum(span.end - span.begin for span in spans),
    )


def _count_parallel(periods: Sequence[tuple[float, float]]) -> int:
    """Return the largest number of periods that contain the same moment."""
    steps = [(begin, 1) for begin, _ in periods] + [(end, -1) for _, end in periods]
    running = peak = 0
    for _, step in sorted(steps):
        running += step
        peak = max(peak, running)
    return peak
