"""What the findings of text rules weigh after the experiments."""

from __future__ import annotations

import pytest

from mngr.tmr.finding import Finding
from mngr.tmr.verify.experiments.experiment import Experiment
from mngr.tmr.verify.experiments.text_rule_weight import weigh_text_findings

PATH = "tests/test_shop.py"


def weigh(rule: str, level: str, experiment: str, outcome: str, found: str = "", path: str = PATH) -> str:
    text = Finding(rule=rule, level=level, path=path, line=3, what="a check changed")
    seen = [Finding(rule=found, level="note", path=PATH, line=3, what="seen")] if found else []
    [finding] = weigh_text_findings([text], [Experiment(name=experiment, outcome=outcome)], seen, PATH)
    return finding.level


@pytest.mark.parametrize(
    ("rule", "level", "experiment", "outcome", "found", "expected"),
    [
        ("check-removed", "refuse", "old_and_new", "passed", "", "note"),
        ("check-removed", "refuse", "old_and_new", "unclear", "", "refuse"),
        ("test-removed", "refuse", "old_and_new", "passed", "", "refuse"),
        ("check-conditional", "note", "old_and_new", "failed", "fault-newly-missed", "refuse"),
        ("check-replaced", "note", "old_and_new", "failed", "fault-newly-missed", "note"),
        ("check-replaced", "note", "old_and_new", "failed", "most-faults-newly-missed", "refuse"),
        ("check-replaced", "note", "old_and_new", "not_examined", "other-values-unnoticed", "refuse"),
        ("expectation-changed", "note", "old_and_new", "not_examined", "other-values-unnoticed", "note"),
        ("expectation-changed", "note", "old_and_new", "failed", "most-faults-newly-missed", "refuse"),
        ("failure-swallowed", "note", "can_fail", "failed", "never-fails", "refuse"),
        ("failure-swallowed", "note", "can_fail", "passed", "", "note"),
        ("check-removed", "justified", "old_and_new", "failed", "most-faults-newly-missed", "justified"),
    ],
)
def test_the_experiments_decide_whether_a_text_rule_refutes(
    rule: str, level: str, experiment: str, outcome: str, found: str, expected: str
) -> None:
    assert weigh(rule, level, experiment, outcome, found) == expected


@pytest.mark.parametrize("rule", ["check-replaced", "rows-replaced", "expectation-changed", "check-moved"])
def test_a_note_about_a_replaced_check_is_dropped_if_the_new_test_is_as_strong(rule: str) -> None:
    finding = Finding(rule=rule, level="note", path=PATH, line=3, what="a check changed")
    as_strong = [Experiment(name="old_and_new", outcome="passed")]
    assert weigh_text_findings([finding], as_strong, [], PATH) == []
    never_fails = [*as_strong, Experiment(name="can_fail", outcome="failed")]
    assert weigh_text_findings([finding], never_fails, [], PATH) == [finding]


def test_experiments_say_nothing_about_another_file() -> None:
    assert weigh("check-removed", "refuse", "old_and_new", "passed", path="tests/test_other.py") == "refuse"
