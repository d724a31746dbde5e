"""Decides what the findings of text rules weigh after the experiments.

A text rule sees that a check was removed, replaced or bypassed. The experiments show whether that made a difference.
Only rules about removed checks, bypassed checks and the harness refute. The others point to a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.verify.experiments.experiment import Experiment

_REMOVAL_RULES = ("check-removed", "rows-removed")
# In a new test, bypassed checks are only notes. They refute if an experiment confirms them.
_BYPASS_RULES = (
    *("failure-swallowed", "broad-raises", "always-true", "check-unreachable", "check-conditional", "early-exit"),
    *("skip-added", "xfail-added", "retry-added", "subject-mocked", "program-replaced", "name-replaced"),
)
# A new test without any check. It refutes if the test also survives all faults.
NO_CHECK_RULES = ("no-check", "always-true", "failure-swallowed")
# Removed checks with something in their place. They refute if the experiments show that the new check is weaker.
_REPLACEMENT_RULES = ("check-replaced", "rows-replaced")
MOST_MISSED_RULE, MISSED_RULE = "most-faults-newly-missed", "fault-newly-missed"
FEWER_ASSERTIONS_RULE = "fewer-assertions"
VALUES_UNNOTICED_RULE = "other-values-unnoticed"
# Notes about edits that may leave a test as strong as before. The experiments answer that, so these notes are dropped.
_ANSWERED_RULES = (*_REPLACEMENT_RULES, "expectation-changed", "check-moved", "check-redundant")
# Code that looks for tests. It is harmless if the program does the same without pytest.
_DETECTION_RULES = ("imports-pytest", "detects-pytest", "reads-test-variable", "reads-stack")


def weigh_text_findings(
    text_findings: Sequence[Finding],
    rows: Sequence[Experiment],
    experiment_findings: Sequence[Finding],
    own_findings: Sequence[Finding],
) -> list[Finding]:
    """Return the findings of text rules with the level that fits what the experiments showed.

    `own_findings` are those about the test itself. The experiments say nothing about the others.
    """
    outcomes = {row.name: row.outcome for row in rows}
    found = {finding.rule for finding in experiment_findings}
    refusing = _list_refusing_rules(outcomes, found)
    is_as_strong = outcomes.get("old_and_new") == "passed" and outcomes.get("can_fail") != "failed"
    misses_nothing = is_as_strong or _notices_as_many_faults(outcomes, found)

    def weigh(finding: Finding) -> Finding:
        if finding.level == "justified" or finding not in own_findings:
            return finding
        if finding.rule in refusing:
            return finding.replace(level="refuse")
        is_answered = (misses_nothing and finding.rule in _REMOVAL_RULES) or (
            is_as_strong and finding.rule in _BYPASS_RULES
        )
        return finding.replace(level="note") if is_answered else finding

    def is_answered(finding: Finding) -> bool:
        is_own_note = finding.level == "note" and finding in own_findings
        return is_as_strong and is_own_note and finding.rule in _ANSWERED_RULES

    return [weigh(finding) for finding in text_findings if not is_answered(finding)]


def _notices_as_many_faults(outcomes: dict[str, str], found: set[str]) -> bool:
    """True when a test with fewer assertions still fails, and notices every fault that the old test noticed."""
    return (
        outcomes.get("old_and_new") == "unclear"
        and outcomes.get("can_fail") == "passed"
        and FEWER_ASSERTIONS_RULE in found
        and not found & {MISSED_RULE, MOST_MISSED_RULE, VALUES_UNNOTICED_RULE}
    )


def _list_refusing_rules(outcomes: dict[str, str], found: set[str]) -> set[str]:
    """Return the rules that refute, because an experiment confirms them."""
    refusing: set[str] = set()
    if outcomes.get("can_fail") == "failed":
        refusing |= {*_BYPASS_RULES, *NO_CHECK_RULES}
    if outcomes.get("old_and_new") == "failed":
        refusing |= {*_BYPASS_RULES, *_REMOVAL_RULES}
    if outcomes.get("old_and_new") != "passed" and found & {MOST_MISSED_RULE, VALUES_UNNOTICED_RULE}:
        refusing |= set(_REPLACEMENT_RULES)
    return refusing


def weigh_rows(rows: Sequence[Experiment], text_findings: Sequence[Finding], path: str) -> list[Experiment]:
    """Return the rows. Two of them prevent a confirmation if a text rule gives a reason for doubt.

    Code that looks for tests must have done the same without pytest. A test in `path` that has no check, and of which mngr
    saw no code, must not count as one that can fail.
    """
    looks_for_tests = any(finding.rule in _DETECTION_RULES for finding in text_findings)
    checks_nothing = any(finding.rule in NO_CHECK_RULES and finding.path == path for finding in text_findings)

    def weigh(row: Experiment) -> Experiment:
        if row.name == "unwatched_calls" and looks_for_tests and row.outcome != "passed":
            reason = f"the new code looks for tests, and mngr could not compare it without pytest: {row.reason}"
            return row.replace(reason=reason, prevents_confirmation=True)
        if row.name == "can_fail" and checks_nothing and row.outcome == "unclear":
            return row.replace(reason=f"{row.reason}, and it checks nothing", prevents_confirmation=True)
        return row

    return [weigh(row) for row in rows]
