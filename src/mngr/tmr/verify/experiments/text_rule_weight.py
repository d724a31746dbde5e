"""Decides what the findings of text rules weigh after the experiments.

A text rule sees that a check was removed, replaced or bypassed. The experiments show whether that made a difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.verify.experiments.experiment import Experiment

# Rules about the strength of a test. If the experiments show that it is as strong as before, these do not refute.
_STRENGTH_RULES = ("check-removed", "check-conditional", "rows-removed", "broad-raises")
# Bypassed or vacuous checks, which are only notes in a new file. With an experiment that confirms them, they refute.
_BYPASS_RULES = ("failure-swallowed", "always-true", "check-unreachable", "broad-raises", "check-conditional")
# Replaced checks. They refute if the new test misses most faults that the old one noticed, or notices no other values.
_REPLACEMENT_RULES = ("check-replaced", "rows-replaced")
MOST_MISSED_RULE = "most-faults-newly-missed"
VALUES_UNNOTICED_RULE = "other-values-unnoticed"
# The new check is as exact as the old one. It refutes only beside a change of the input, which most faults then show.
EXPECTATION_RULE = "expectation-changed"
# Notes about edits that may leave a test as strong as before. The experiments answer that, so these notes are dropped.
_ANSWERED_RULES = (*_REPLACEMENT_RULES, EXPECTATION_RULE, "check-moved", "check-redundant")


def weigh_text_findings(
    text_findings: Sequence[Finding],
    rows: Sequence[Experiment],
    experiment_findings: Sequence[Finding],
    path: str,
) -> list[Finding]:
    """Return the findings of text rules with the level that fits what the experiments showed about the test in `path`."""
    outcomes = {row.name: row.outcome for row in rows}
    refusing: tuple[str, ...] = ()
    if outcomes.get("can_fail") == "failed":
        refusing += _BYPASS_RULES
    if outcomes.get("old_and_new") == "failed":
        refusing += (*_BYPASS_RULES, *_STRENGTH_RULES)
    rules = {finding.rule for finding in experiment_findings}
    if outcomes.get("old_and_new") != "passed" and rules & {MOST_MISSED_RULE, VALUES_UNNOTICED_RULE}:
        refusing += _REPLACEMENT_RULES
    if MOST_MISSED_RULE in rules:
        refusing += (EXPECTATION_RULE,)
    is_as_strong = outcomes.get("old_and_new") == "passed" and outcomes.get("can_fail") != "failed"

    def weigh(finding: Finding) -> Finding:
        if finding.path != path or finding.level == "justified":
            return finding
        if finding.rule in refusing:
            return finding.replace(level="refuse")
        return finding.replace(level="note") if is_as_strong and finding.rule in _STRENGTH_RULES else finding

    def is_answered(finding: Finding) -> bool:
        is_note = finding.level == "note" and finding.path == path
        return is_as_strong and is_note and finding.rule in _ANSWERED_RULES

    return [weigh(finding) for finding in text_findings if not is_answered(finding)]
