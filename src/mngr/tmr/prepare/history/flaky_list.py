"""Keeps a list of flaky tests between runs, with failure counts, dates and likely reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mngr.base import time_format
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.tmr.prepare.history.history_file import HistoryFile
from mngr.tmr.runners.test_run import TestRun

# These patterns in a failure's text and in a test's source point at a reason.
_FAILURE_PATTERNS = {
    "time": re.compile(
        r"tim(?:ed ?out|eout)|deadline|did not (?:end|finish) within|not within|too slow", re.IGNORECASE
    ),
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
    """A test that sometimes passes and sometimes fails."""

    test: str
    first_seen: str
    last_seen: str
    runs: int  # since the test was listed
    fails: int
    suspects: list[str] = []  # time, order, port, network: the likeliest first
    why: str = ""  # the reason of its last failure

    @property
    def rate(self) -> float:
        """Return the share of runs that failed."""
        return self.fails / self.runs if self.runs else 0.0


def list_suspects(failed: Sequence[TestRun], source: str) -> list[str]:
    """Return the likely reasons for the failures, the likeliest first.

    A match in a failure's text counts more than a match in the test's source.
    """
    failure_text = "\n".join(
        f"{run.why}\n{failure.text}" for run in failed for failure in run.failures or ()
    ) + "\n".join(run.why for run in failed)
    scores = {
        name: 2 * bool(_FAILURE_PATTERNS[name].search(failure_text)) + bool(_SOURCE_PATTERNS[name].search(source))
        for name in _FAILURE_PATTERNS
    }
    if any(run.outcome == "timeout" for run in failed):
        scores["time"] += 2
    return sorted((name for name, score in scores.items() if score), key=lambda name: -scores[name])


class FlakyTestFile(HistoryFile[FlakyTest]):
    """The file `flaky.json`, with one entry per flaky test."""

    def __init__(self, home: Home, root: str) -> None:
        super().__init__(home, root, "flaky.json", FlakyTest, "test")

    def add_runs(self, groups: Sequence[Sequence[TestRun]], sources: Mapping[str, str]) -> list[FlakyTest]:
        """Add runs to the list and return the tests that these runs show to be flaky.

        Each group holds the runs of one test on the same code. Runs of a listed test count only when at least one run
        of the group passed: a test that always fails has another reason.
        """
        mixed = {group[0].test for group in groups if has_mixed_outcomes(group)}
        entries = self.read()
        if not mixed and not any(group and group[0].test in entries for group in groups):
            return []
        with self.edit_rows() as entries:
            for group in groups:
                test = group[0].test
                if (test in mixed or test in entries) and any(run.outcome == "pass" for run in group):
                    entries[test] = _update_entry(entries.get(test), test, group, sources.get(test, ""))
        return [entries[test] for test in sorted(mixed)]


def has_mixed_outcomes(runs: Sequence[TestRun]) -> bool:
    """True when a test both passed and failed, or when a plugin had to repeat it."""
    kinds = {run.outcome == "pass" for run in runs if run.outcome != "skip"}
    return len(kinds) > 1 or any(run.reruns for run in runs)


def _update_entry(previous: FlakyTest | None, test: str, runs: Sequence[TestRun], source: str) -> FlakyTest:
    now = time_format.format_timestamp()
    failed = [run for run in runs if run.outcome not in ("pass", "skip") or run.reruns]
    entry = previous or FlakyTest(test=test, first_seen=now, last_seen=now, runs=0, fails=0)
    entry = entry.replace(runs=entry.runs + len(runs), fails=entry.fails + len(failed))
    if failed:
        suspects = list_suspects(failed, source)
        names = [*suspects, *(name for name in entry.suspects if name not in suspects)]
        entry = entry.replace(last_seen=now, suspects=names, why=failed[-1].why)
    return entry
