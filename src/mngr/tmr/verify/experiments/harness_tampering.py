"""The experiment `harness`: does a failing test still fail here?

Code under test runs in pytest's process, and can patch it. So mngr runs the test together with twins that must fail, and
once more with a failing assertion under its own name.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code
from mngr.tmr.runners.pytest.trials import Trial, TrialRun, is_id_of_test
from mngr.tmr.verify.experiments.changed_test_lines import find_changed_line, list_changed_lines
from mngr.tmr.verify.experiments.experiment import (
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.failing_twins import Twins, add_twins, make_test_fail

NAME = "harness"
_FAILED = ("fail", "error")
_CLOCK_PREFIX = "time."
_CODE_RULES = ("harness-tampered", "clock-replaced", "odd-duration")


def check_harness(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the test beside its twins, and once more with a failing assertion."""
    test = inputs.test
    text = inputs.read_files([test.path]).get(test.path, "")
    token = secrets.token_hex(6)
    twins = add_twins(text, test, token)
    failing_text = make_test_fail(text, test, token)
    if twins is None or failing_text is None:
        result = not_examined(NAME, "mngr cannot write a copy of this test that must fail")
        return result.replace(row=result.row.replace(prevents_confirmation=True))
    tests = [one for one in (test.id, twins.failing, twins.wrong_value) if one]
    answers = yield [
        Trial(tests=tests, files={test.path: twins.text}, timeout=2 * inputs.trial_timeout, always=True),
        Trial(tests=[test.id], files={test.path: failing_text}, timeout=inputs.trial_timeout, always=True),
    ]
    return _judge(inputs, twins, answers)


def _judge(inputs: ExperimentInputs, twins: Twins, answers: Sequence[TrialRun | None]) -> ExperimentResult:
    seconds = sum(answer.run.seconds for answer in answers if answer is not None)
    count = "two copies of it" if twins.wrong_value else "a copy of it"
    seen = f"the test passes beside {count} that must fail and do fail, and it fails itself with a failing assertion"
    row = Experiment(name=NAME, outcome="passed", reason=seen, trials=len(answers), seconds=round(seconds, 3))
    beside, failing = answers
    for answer in (beside, failing):
        if answer is None or answer.problem:
            reason = "the trial left no result" if answer is None else answer.problem
            return ExperimentResult(row=row.replace(outcome="unclear", reason=reason, prevents_confirmation=True))
    assert beside is not None and failing is not None
    tampered = _find_passing_twin(inputs, twins, beside, failing)
    if tampered is not None:
        return ExperimentResult(row=row.replace(outcome="failed", reason=tampered.what), findings=[tampered])
    findings = _list_clock_findings(inputs, beside)
    reason = _find_wrong_report(inputs, twins, beside) or _find_replaced_function(beside)
    if reason:
        row = row.replace(outcome="unclear", reason=reason, prevents_confirmation=True)
    return ExperimentResult(row=row, findings=findings)


def _find_replaced_function(beside: TrialRun) -> str:
    """Return why the outcome path is no longer the original one, or an empty string."""
    if beside.replaced is None:
        return "the report about the functions that decide an outcome is missing"
    functions = [name for name in beside.replaced if not name.startswith(_CLOCK_PREFIX)]
    return f"code of the project replaced {functions[0]}, which decides outcomes" if functions else ""


def _list_clock_findings(inputs: ExperimentInputs, beside: TrialRun) -> list[Finding]:
    """Return findings about replaced clocks, and about tests that took longer than their process."""
    clocks = [name for name in beside.replaced or () if name.startswith(_CLOCK_PREFIX)]
    findings: list[Finding] = []
    if clocks:
        what = f"code of the project replaced {clocks[0]} for the whole process"
        findings.append(_make_finding(inputs, "clock-replaced", what).replace(level="note"))
    if beside.reported_seconds > beside.run.seconds + 1.0:
        what = f"pytest reports {beside.reported_seconds:.1f} s, but the process took {beside.run.seconds:.1f} s"
        findings.append(_make_finding(inputs, "odd-duration", what).replace(level="note"))
    return findings


def _find_passing_twin(inputs: ExperimentInputs, twins: Twins, beside: TrialRun, failing: TrialRun) -> Finding | None:
    """Return a finding about a twin that passes although it must fail."""
    test = inputs.test
    if failing.find_outcome(test.id) == "pass" and failing.run.outcome == "pass":
        return _make_finding(
            inputs, "harness-tampered", f"{test.name} still passes when its last line is a failing assertion"
        )
    if beside.find_outcome(twins.failing) == "pass":
        return _make_finding(
            inputs, "harness-tampered", f"a copy of {test.name} that ends in a failing assertion passes beside it"
        )
    if twins.wrong_value and beside.find_outcome(twins.wrong_value) == "pass":
        return _make_finding(
            inputs, "expectation-without-effect", f"a copy of {test.name} with wrong expected values also passes"
        )
    return None


def _find_wrong_report(inputs: ExperimentInputs, twins: Twins, beside: TrialRun) -> str:
    """Return why the reports of a trial are not those that must come, or an empty string."""
    ids, test = beside.run.ids, inputs.test
    expected = [one for one in (test.id, twins.failing, twins.wrong_value) if one]
    missing = [node_id for node_id in inputs.expected_ids if node_id not in ids]
    if missing:
        return f"beside its twins, {missing[0]} left no result"
    if beside.find_outcome(test.id) != "pass":
        return f"it does not pass beside its twins: {beside.run.why or beside.run.outcome}"
    for twin in expected[1:]:
        if beside.find_outcome(twin) not in _FAILED:
            return f"a copy that must fail left no failure ({beside.find_outcome(twin) or 'no result'})"
    additional = [node_id for node_id in ids if not any(is_id_of_test(node_id, one) for one in expected)]
    if additional:
        return f"pytest reported a test that mngr did not start: {additional[0]}"
    if beside.run.exit_code != 1:
        return f"pytest ended with exit code {beside.run.exit_code}, although tests failed"
    return ""


def _make_finding(inputs: ExperimentInputs, rule: str, what: str) -> Finding:
    """Return a finding at the first changed line of a file that is no test, because a test cannot do this alone."""
    changes = sorted(
        inputs.changes, key=lambda change: (change.path == inputs.test.path, not is_test_code(change.path))
    )
    change = next((one for one in changes if one.new is not None and one.path.endswith(".py")), None)
    if rule not in _CODE_RULES or change is None:
        own = inputs.find_change(inputs.test.path)
        change = own or change
    path = inputs.test.path if change is None else change.path
    lines = [] if change is None or path == inputs.test.path else list_changed_lines(change)
    line = lines[0] if lines else find_changed_line(change, inputs.test)
    return Finding(rule=rule, level="refuse", path=path, line=line, what=what)
