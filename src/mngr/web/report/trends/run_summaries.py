"""The numbers of each test run of a project, which stay in mngr's home after the run is deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.host.protocol import Host
from mngr.mapreduce.run_dir import RunDir, list_runs
from mngr.mapreduce.run_repo import is_own_run
from mngr.tmr.prepare.history.history_file import HistoryFile
from mngr.tmr.prepare.journal_facts import BaselineDone, list_facts
from mngr.web.report.report_data import ReportFacts, load_facts

MAX_RUNS = 100  # The latest runs that are kept.
_MAX_READ = 5  # Finished runs that are read at once. The next report reads more.


class RunSummary(Struct):
    """The numbers of one run."""

    run: str
    at: str
    seconds: float
    tests: int  # That mngr ran before any change.
    passed_before: int
    tests_after: int | None  # With all merged changes; None without a branch.
    passed_after: int | None
    flaky: int
    tasks: int
    confirmed: int
    tokens: int
    cost: float | None  # In US dollars; None if the price is unknown.

    @property
    def share_before(self) -> float | None:
        """The share of tests that passed before any change."""
        return self.passed_before / self.tests if self.tests else None

    @property
    def share_after(self) -> float | None:
        """The share of tests that pass with all merged changes, or None without a branch."""
        return self.passed_after / self.tests_after if self.tests_after and self.passed_after is not None else None


class RunSummaryFile(HistoryFile[RunSummary]):
    """The file `runs.json`, with one entry per finished run."""

    def __init__(self, home: Home, root: str) -> None:
        super().__init__(home, root, "runs.json", RunSummary, "run")

    def add(self, summaries: Iterable[RunSummary]) -> None:
        """Add or replace the entries of these runs, and forget the oldest runs."""
        with self.edit_rows() as rows:
            rows |= {summary.run: summary for summary in summaries}
            for summary in sorted(rows.values(), key=lambda row: row.at)[:-MAX_RUNS]:
                del rows[summary.run]


def load_run_summaries(local: Host, root: str, current: ReportFacts | None = None) -> list[RunSummary]:
    """Return the numbers of the project's runs, the oldest first. `current` may still be running."""
    file = RunSummaryFile(local.home, root)
    known = file.read()
    listed = {*known} if current is None else {*known, current.run.name}
    new = {summary.run: summary for summary in _read_unknown_runs(local, root, listed)}
    summary = None if current is None else summarize_run(current)
    if current is not None and summary is not None and not current.is_live:
        new[summary.run] = summary
    changed = [row for name, row in new.items() if known.get(name) != row]
    if changed:
        with contextlib.suppress(OSError):  # The numbers only save work.
            file.add(changed)
    rows = {**known, **new, **({} if summary is None else {summary.run: summary})}
    return sorted(rows.values(), key=lambda row: row.at)[-MAX_RUNS:]


def summarize_run(facts: ReportFacts) -> RunSummary | None:
    """Return the numbers of a run, or None before the first test results, and for a run without tests."""
    baselines = list_facts(facts.run_state, BaselineDone)
    if not baselines or facts.plan.kind == "map":
        return None
    baseline = baselines[-1]
    after = None if facts.integration is None else facts.integration.tests
    flaky_after = set() if facts.integration is None else set(facts.integration.flaky)
    return RunSummary(
        run=facts.run.name,
        at=time_format.format_timestamp(facts.started_at),
        seconds=round(facts.ended_at - facts.started_at, 1),
        tests=baseline.tests,
        passed_before=baseline.counts.get("pass", 0),
        tests_after=None if after is None else after.all,
        passed_after=None if after is None else after.passed,
        flaky=max(baseline.counts.get("flaky", 0), len(flaky_after)),
        tasks=len(facts.tasks),
        confirmed=sum(task.verdict == "confirmed" for task in facts.tasks),
        tokens=facts.status.budget.tokens,
        cost=facts.status.budget.cost_usd,
    )


def _read_unknown_runs(local: Host, root: str, known: set[str]) -> list[RunSummary]:
    """Return the numbers of finished runs of this home that are not in the file yet, the latest ones first."""
    summaries: list[RunSummary] = []
    unknown = [RunDir(root, name) for name in reversed(list_runs(root)[-MAX_RUNS:]) if name not in known]
    for run in unknown[:_MAX_READ]:
        try:
            facts = load_facts(run) if is_own_run(local, run) else None
        except (MngrError, OSError):
            continue
        summary = None if facts is None or facts.is_live else summarize_run(facts)
        if summary is not None:
            summaries.append(summary)
    return summaries
