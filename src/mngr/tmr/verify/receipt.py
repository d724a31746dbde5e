"""Receipts: the record of what mngr saw when it re-ran a claim in a clean room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.baseline import combine_outcomes as together
from mngr.tmr.prepare.code_under_test import describe_foreign_code, map_locations

VERDICTS = ("confirmed", "refuted", "flaky", "unverified")
_MAX_TEXT = 2_000  # characters of a failure's text


class Receipt(Struct):
    """The record of what mngr saw when it ran the claimed test."""

    v: int = 1
    test: str
    verdict: str  # confirmed | refuted | flaky | unverified
    reason: str  # a sentence, for every verdict
    commit: str
    base: str = ""
    tree: str = ""
    level: str = "quick"  # quick | full
    command: list[str]
    k: int
    results: list[dict[str, Any]] = []  # outcome, seconds, why of each run of the test, in order
    witnesses: list[dict[str, Any]] = []  # the same for the affected tests
    rate: float | None = None  # the share of failed runs of a flaky test
    imported_from: dict[str, str] = {}
    policy: list[dict[str, Any]] = []  # findings about the touched files
    guard: list[dict[str, Any]] = []  # findings about weakened tests
    findings: list[dict[str, Any]] = []  # all other findings: of the clean room, proofs, audit and mutants
    proofs: list[dict[str, Any]] = []  # the red-green proof of each fix of the implementation
    mutation: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    room: str = ""  # the isolation of the clean room
    environment: dict[str, str] = {}
    hashes: dict[str, str] = {}  # hashes of tree, command, environment, transcript and recording
    again: dict[str, Any] = {}  # everything that is needed to repeat the verification
    seed: int = 0
    seconds: float = 0.0  # total time of all runs

    @property
    def all_findings(self) -> list[dict[str, Any]]:
        """All findings, from every check."""
        return [*self.policy, *self.guard, *self.findings]


def make_receipt(
    blank: Receipt,
    test_runs: Sequence[TestRun],
    affected_runs: Sequence[TestRun],
    findings: Iterable[Finding],
    program: str | None,
) -> Receipt:
    """Return the receipt from the runs of the test and of the affected tests, and from the findings about the edit."""
    runs = [*test_runs, *affected_runs]
    imported = {name: path for run in runs for name, path in map_locations(run.resolved).items()}
    imported |= {name: path for run in runs for name, path in run.imported_from.items()}
    verdict, reason = decide_verdict(test_runs, affected_runs, _describe_wrong_code(runs, program))
    refused = [finding for finding in findings if finding.level == "refuse"]
    if verdict in ("confirmed", "flaky") and refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        location = f"{refused[0].path}:{refused[0].line}" if refused[0].line else refused[0].path
        verdict, reason = "refuted", f"it passes, but {location}: {refused[0].what}{more}"
    failed = sum(run.outcome != "pass" or bool(run.reruns) for run in test_runs)
    return blank.replace(
        verdict=verdict,
        reason=reason,
        results=[_summarize_run(run) for run in test_runs],
        witnesses=[{"test": run.test, **_summarize_run(run)} for run in affected_runs],
        rate=round(failed / len(test_runs), 3) if test_runs and verdict == "flaky" else None,
        imported_from=dict(sorted(imported.items())),
        room=runs[0].walls if runs else "",
        environment=runs[0].environment if runs else {},
        seconds=round(sum(run.seconds for run in runs), 3),
    )


def decide_verdict(
    test_runs: Sequence[TestRun], affected_runs: Sequence[TestRun], wrong_code: str = ""
) -> tuple[str, str]:
    """Return (verdict, reason) from the runs of the test and of the affected tests."""
    if wrong_code:
        return "unverified", f"wrong code under test: {wrong_code}"
    passed = sum(run.outcome == "pass" for run in test_runs)
    failed_run = next((run for run in test_runs if run.outcome != "pass"), None)
    if failed_run is not None and passed:
        return (
            "flaky",
            f"it passed {passed} of {len(test_runs)} times; else {failed_run.outcome}: {_describe_failure(failed_run)}",
        )
    if failed_run is not None:
        return (
            "refuted",
            f"{_describe_outcome(failed_run)} {_format_times(len(test_runs))}: {_describe_failure(failed_run)}",
        )
    affected_outcomes: dict[str, list[str]] = {}
    for run in affected_runs:
        affected_outcomes.setdefault(run.test, []).append(run.outcome)
    for name, outcomes in affected_outcomes.items():
        if together(outcomes) != "pass":
            failed_run = next(run for run in affected_runs if run.test == name and run.outcome != "pass")
            return "refuted", f"the witness {name} does not pass: {_describe_failure(failed_run)}"
    reruns = sum(run.reruns for run in test_runs)
    if reruns:
        return "flaky", f"it passed only because a plugin repeated it: {reruns}"
    suffix = (
        f", and so did {len(affected_outcomes)} witnesses"
        if len(affected_outcomes) > 1
        else ", and so did its witness"
        if affected_outcomes
        else ""
    )
    return "confirmed", f"it passed {passed} of {len(test_runs)} times{suffix}"


def _describe_wrong_code(runs: Sequence[TestRun], program: str | None) -> str:
    for run in runs:
        problems = [*run.wrong_code, *describe_foreign_code(run.resolved, program)]
        if problems:
            return problems[0]
    return ""


def _summarize_run(run: TestRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "outcome": run.outcome,
        "seconds": round(run.seconds, 3),
        "cpu": round(run.cpu, 3),
        "exit_code": run.exit_code,
    }
    if run.outcome != "pass":
        row["why"] = _describe_failure(run)
    if run.failures:
        row["text"] = run.failures[0].text[-_MAX_TEXT:]
    if run.reruns:
        row["reruns"] = run.reruns
    if run.missing:
        row["missing"] = run.missing
    if run.left:
        row["left"] = run.left
    return row


def _describe_failure(run: TestRun) -> str:
    return run.why or run.outcome


def _describe_outcome(run: TestRun) -> str:
    return {"skip": "it was skipped", "timeout": "it did not end", "crash": "it crashed"}.get(run.outcome, "it failed")


def _format_times(count: int) -> str:
    return "when it was run" if count == 1 else f"{count} of {count} times"
