"""What the findings of text rules weigh after the experiments."""

from __future__ import annotations

import pytest

from mngr.tmr.finding import Finding
from mngr.tmr.verify.experiments.experiment import Experiment
from mngr.tmr.verify.experiments.text_rule_weight import weigh_rows, weigh_text_findings

PATH = "tests/test_shop.py"


def weigh(rule: str, level: str, experiment: str, outcome: str, found: str = "", *, is_own: bool = True) -> str:
    text = Finding(rule=rule, level=level, path=PATH, line=3, what="a check changed")
    seen = [Finding(rule=found, level="note", path=PATH, line=3, what="seen")] if found else []
    [finding] = weigh_text_findings(
        [text], [Experiment(name=experiment, outcome=outcome)], seen, [text] if is_own else []
    )
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
        ("expectation-changed", "note", "old_and_new", "failed", "most-faults-newly-missed", "note"),
        ("failure-swallowed", "note", "can_fail", "failed", "never-fails", "refuse"),
        ("no-check", "note", "can_fail", "failed", "never-fails", "refuse"),
        ("always-true", "note", "can_fail", "failed", "never-fails", "refuse"),
        ("no-check", "note", "can_fail", "passed", "", "note"),
        ("always-true", "refuse", "old_and_new", "passed", "", "note"),
        ("skip-added", "refuse", "old_and_new", "passed", "", "note"),
        ("subject-mocked", "refuse", "old_and_new", "passed", "", "note"),
        ("hook-changed", "refuse", "old_and_new", "passed", "", "refuse"),
        ("failure-swallowed", "note", "can_fail", "passed", "", "note"),
        ("check-removed", "justified", "old_and_new", "failed", "most-faults-newly-missed", "justified"),
    ],
)
def test_the_experiments_decide_whether_a_text_rule_refutes(
    rule: str, level: str, experiment: str, outcome: str, found: str, expected: str
) -> None:
    assert weigh(rule, level, experiment, outcome, found) == expected


@pytest.mark.parametrize(
    ("missed", "can_fail", "expected"),
    [([], "passed", "note"), (["fault-newly-missed"], "passed", "refuse"), ([], "failed", "refuse")],
)
def test_a_removed_check_does_not_refute_if_the_new_test_notices_as_many_faults(
    missed: list[str], can_fail: str, expected: str
) -> None:
    text = Finding(rule="check-removed", level="refuse", path=PATH, line=3, what="a check is gone")
    seen = [Finding(rule=rule, level="note", path=PATH, line=3, what="seen") for rule in ("fewer-assertions", *missed)]
    rows = [Experiment(name="old_and_new", outcome="unclear"), Experiment(name="can_fail", outcome=can_fail)]
    assert [finding.level for finding in weigh_text_findings([text], rows, seen, [text])] == [expected]


@pytest.mark.parametrize("rule", ["check-replaced", "rows-replaced", "expectation-changed", "check-moved"])
def test_a_note_about_a_replaced_check_is_dropped_if_the_new_test_is_as_strong(rule: str) -> None:
    finding = Finding(rule=rule, level="note", path=PATH, line=3, what="a check changed")
    as_strong = [Experiment(name="old_and_new", outcome="passed")]
    assert weigh_text_findings([finding], as_strong, [], [finding]) == []
    never_fails = [*as_strong, Experiment(name="can_fail", outcome="failed")]
    assert weigh_text_findings([finding], never_fails, [], [finding]) == [finding]


def test_experiments_say_nothing_about_another_test() -> None:
    assert weigh("check-removed", "refuse", "old_and_new", "passed", is_own=False) == "refuse"


@pytest.mark.parametrize("rule", ["imports-pytest", "detects-pytest", "reads-test-variable", "reads-stack"])
def test_code_that_looks_for_tests_is_not_confirmed_unless_it_does_the_same_without_pytest(rule: str) -> None:
    finding = Finding(rule=rule, level="note", path="shop.py", line=3, what="it looks for tests")
    rows = [Experiment(name="unwatched_calls", outcome=outcome) for outcome in ("passed", "unclear", "not_examined")]
    assert [row.prevents_confirmation for row in weigh_rows(rows, [finding], PATH)] == [False, True, True]
    assert weigh_rows(rows, [], PATH) == rows


def test_a_test_that_checks_nothing_is_not_confirmed_if_mngr_saw_no_code_of_it() -> None:
    finding = Finding(rule="no-check", level="note", path=PATH, line=3, what="it checks nothing")
    rows = [Experiment(name="can_fail", outcome=outcome) for outcome in ("passed", "unclear")]
    assert [row.prevents_confirmation for row in weigh_rows(rows, [finding], PATH)] == [False, True]
    assert weigh_rows(rows, [finding], "tests/test_other.py") == rows
