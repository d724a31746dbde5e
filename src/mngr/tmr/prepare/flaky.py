"""Tests that pass at one time and fail at another: kept between runs, with how often, since when, and what may be behind it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mngr.base import clock
from mngr.base.model import Struct
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.prepare.history_files import HistoryFile

# What a failure says, and what the source of a test does, that points at a reason.
_FAILURE_PATTERNS = {
    "time": re.compile(r"tim(?:ed ?out|eout)|deadline|did not end within|not within|too slow", re.IGNORECASE),
    "port": re.compile(r"address already in use|EADDRINUSE|connection (?:refused|reset)|port \d+", re.IGNORECASE),
    "network": re.compile(
        r"name or service not known|name resolution|network is unreachable|getaddrinfo|no route to host|ENETUNREACH",
        re.IGNORECASE,
    ),
    "order": re.compile(r"already exists|FileExistsError|lists differ|order|At index \d+ diff", re.IGNORECASE),
}
_SOURCE_PATTERNS = {
    "time": re.compile(
        r"\bsleep\(|\btime\.(?:time|monotonic|perf_counter)\(|datetime\.(?:now|today|utcnow)\(|timeout="
    ),
    "port": re.compile(r"\bbind\(|\bport\b|localhost|127\.0\.0\.1"),
    "network": re.compile(r"https?://(?!localhost|127\.)|\burlopen\(|requests\."),
    "order": re.compile(r"\bset\(|listdir\(|\bglob\(|iterdir\(|\brandom\.|\bglobal\b"),
}


class FlakyTest(Struct):
    """One of them."""

    test: str
    first_seen: str
    last_seen: str
    runs: int  # since it is on the list
    fails: int
    suspects: list[str] = []  # time, order, port, network: the likeliest first
    why: str = ""  # how it failed last

    @property
    def rate(self) -> float:
        """The share of runs that failed."""
        return self.fails / self.runs if self.runs else 0.0


def list_suspects(failed: Sequence[TestRun], source: str) -> list[str]:
    """What may be behind it: what the failures say counts more than what the test does."""
    said = "\n".join(f"{run.why}\n{failure.text}" for run in failed for failure in run.failures or ()) + "\n".join(
        run.why for run in failed
    )
    points = {
        name: 2 * bool(_FAILURE_PATTERNS[name].search(said)) + bool(_SOURCE_PATTERNS[name].search(source))
        for name in _FAILURE_PATTERNS
    }
    if any(run.outcome == "timeout" for run in failed):
        points["time"] += 2
    return sorted((name for name, point in points.items() if point), key=lambda name: -points[name])


class FlakyTestFile(HistoryFile[FlakyTest]):
    """`flaky.json`: one entry a test."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "flaky.json", FlakyTest, "test")

    def add_runs(self, groups: Sequence[Sequence[TestRun]], sources: Mapping[str, str]) -> list[FlakyTest]:
        """What runs have shown, each group of one test and the same code; the tests that are flaky by them.

        Of one that is on the list every run counts, but not where it always failed: that has another reason.
        """
        mixed = {group[0].test for group in groups if has_mixed_outcomes(group)}
        known = self.read()
        if not mixed and not any(group and group[0].test in known for group in groups):
            return []
        with self.edit_rows() as known:
            for group in groups:
                test = group[0].test
                if (test in mixed or test in known) and any(run.outcome == "pass" for run in group):
                    known[test] = _update_entry(known.get(test), test, group, sources.get(test, ""))
        return [known[test] for test in sorted(mixed)]


def has_mixed_outcomes(runs: Sequence[TestRun]) -> bool:
    """Whether a test passed and failed, or passed only because something repeated it."""
    kinds = {run.outcome == "pass" for run in runs if run.outcome != "skip"}
    return len(kinds) > 1 or any(run.reruns for run in runs)


def _update_entry(known: FlakyTest | None, test: str, runs: Sequence[TestRun], source: str) -> FlakyTest:
    now = clock.format_timestamp()
    failed = [run for run in runs if run.outcome not in ("pass", "skip") or run.reruns]
    one = known or FlakyTest(test=test, first_seen=now, last_seen=now, runs=0, fails=0)
    one = one.replace(runs=one.runs + len(runs), fails=one.fails + len(failed))
    if failed:
        found = list_suspects(failed, source)
        names = [*found, *(name for name in one.suspects if name not in found)]
        one = one.replace(last_seen=now, suspects=names, why=failed[-1].why)
    return one
