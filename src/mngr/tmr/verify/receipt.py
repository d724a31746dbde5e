"""Receipts: what counts is what our own process saw, in a clean room, of a commit that somebody claims something about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.cleanroom.test_run import TestRun
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.baseline import combine_outcomes as together
from mngr.tmr.prepare.code_under_test import describe_foreign_code, map_locations

VERDICTS = ("confirmed", "refuted", "flaky", "unverified")
_MAX_TEXT = 2_000  # characters of an explanation


class Receipt(Struct):
    """What counts: what we saw when we ran it."""

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
    witnesses: list[dict[str, Any]] = []  # the same of the others that the cause broke
    rate: float | None = None  # the share of runs that failed, of a flaky one
    imported_from: dict[str, str] = {}
    policy: list[dict[str, Any]] = []  # findings about which files were touched, and how
    guard: list[dict[str, Any]] = []  # findings about tests that were made weaker
    findings: list[dict[str, Any]] = []  # all others: of the room, of proofs, of the audit, of faults that are missed
    proofs: list[dict[str, Any]] = []  # red and green, of each fix of the implementation
    mutation: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None
    room: str = ""  # its walls
    environment: dict[str, str] = {}
    hashes: dict[str, str] = {}  # of tree, command, environment, transcript, recording
    again: dict[str, Any] = {}  # all that is needed to run it again
    seed: int = 0
    seconds: float = 0.0  # of all runs

    @property
    def all_findings(self) -> list[dict[str, Any]]:
        """Every finding, whoever found it."""
        return [*self.policy, *self.guard, *self.findings]


def make_receipt(
    blank: Receipt,
    own: Sequence[TestRun],
    others: Sequence[TestRun],
    refusals: Iterable[Finding],
    program: str | None,
) -> Receipt:
    """The receipt of the runs of a test and of its witnesses, and of what was found about the edit."""
    runs = [*own, *others]
    imported = {name: path for run in runs for name, path in map_locations(run.resolved).items()}
    imported |= {name: path for run in runs for name, path in run.imported_from.items()}
    verdict, reason = decide_verdict(own, others, _describe_wrong_code(runs, program))
    refused = [finding for finding in refusals if finding.level == "refuse"]
    if verdict in ("confirmed", "flaky") and refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        place = f"{refused[0].path}:{refused[0].line}" if refused[0].line else refused[0].path
        verdict, reason = "refuted", f"it passes, but {place}: {refused[0].what}{more}"
    failed = sum(run.outcome != "pass" or bool(run.reruns) for run in own)
    return blank.replace(
        verdict=verdict,
        reason=reason,
        results=[_summarize_run(run) for run in own],
        witnesses=[{"test": run.test, **_summarize_run(run)} for run in others],
        rate=round(failed / len(own), 3) if own and verdict == "flaky" else None,
        imported_from=dict(sorted(imported.items())),
        room=runs[0].walls if runs else "",
        environment=runs[0].environment if runs else {},
        seconds=round(sum(run.seconds for run in runs), 3),
    )


def decide_verdict(own: Sequence[TestRun], others: Sequence[TestRun], wrong: str = "") -> tuple[str, str]:
    """(verdict, reason) of the runs of a test and of its witnesses."""
    if wrong:
        return "unverified", f"wrong code under test: {wrong}"
    passed = sum(run.outcome == "pass" for run in own)
    bad = next((run for run in own if run.outcome != "pass"), None)
    if bad is not None and passed:
        return (
            "flaky",
            f"it passed {passed} of {len(own)} times; else {bad.outcome}: {_describe_failure(bad)}",
        )
    if bad is not None:
        return "refuted", f"{_describe_outcome(bad)} {_format_times(len(own))}: {_describe_failure(bad)}"
    kinds: dict[str, list[str]] = {}
    for run in others:
        kinds.setdefault(run.test, []).append(run.outcome)
    for name, outcomes in kinds.items():
        if together(outcomes) != "pass":
            bad = next(run for run in others if run.test == name and run.outcome != "pass")
            return "refuted", f"the witness {name} does not pass: {_describe_failure(bad)}"
    reruns = sum(run.reruns for run in own)
    if reruns:
        return "flaky", f"it passed only because a plugin repeated it: {reruns}"
    also = f", and so did {len(kinds)} witnesses" if len(kinds) > 1 else ", and so did its witness" if kinds else ""
    return "confirmed", f"it passed {passed} of {len(own)} times{also}"


def _describe_wrong_code(runs: Sequence[TestRun], program: str | None) -> str:
    for run in runs:
        found = [*run.wrong_code, *describe_foreign_code(run.resolved, program)]
        if found:
            return found[0]
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
