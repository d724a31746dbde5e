"""The experiment `can_fail`: can this new or edited test fail at all?

mngr runs the test against programs that return other values, do nothing, raise an exception, or exit, and against
mutants. The faults are in the project's files, so it does not matter how a test calls the program. The experiment ends
as soon as an assertion of the test has noticed a fault. If no fault makes the test fail, mngr tries more of them, whatever
time is left.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import FileEdit, Trial, TrialRun
from mngr.tmr.verify.experiments.changed_test_lines import find_changed_line, parse_function
from mngr.tmr.verify.experiments.executed_code import ExecutedCode, read_executed_code
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.text_rule_weight import VALUES_UNNOTICED_RULE
from mngr.tmr.verify.mutants.function_faults import (
    EXIT,
    FAILURE,
    NOTHING,
    change_constants,
    change_values,
    replace_bodies,
)
from mngr.tmr.verify.mutants.mutant_selection import choose_mutants

NAME = "can_fail"
FAILED_OUTCOMES = ("fail", "error", "timeout", "crash")
_ASSERTION_NAMES = ("AssertionError", "Failed")  # of the exceptions with which a test notices something
_MUTANT_COUNTS = {"quick": 4, "full": 15}
_LAST_MUTANTS = 12  # further ones, if the test has passed with all others


def check_can_fail(inputs: ExperimentInputs) -> ExperimentPlan:
    """Try faults until an assertion of the test notices one."""
    if not inputs.is_test_changed:
        return not_examined(NAME, "the claim does not change the test")
    code = read_executed_code(inputs, [inputs.first_run])
    if not code.sources:
        return _make_no_code_result(inputs)
    seen: list[TrialRun] = []
    values: TrialRun | None = None  # the trial with other values, which is the first one
    for faults in (_list_value_faults(code), _list_other_faults(inputs, code)):
        answers = yield [_make_trial(inputs, edits) for edits in faults if edits]
        seen += [answer for answer in answers if answer is not None and not answer.problem]
        values = values or (answers[0] if faults[0] and answers else None)
        if any(has_noticed(answer) for answer in seen):
            return _make_result("passed", seen, _list_value_findings(inputs, values))
    if not seen:
        return not_examined(NAME, NO_TIME)
    if _has_survived(seen):
        answers = yield [_make_trial(inputs, edits).replace(always=True) for edits in _list_last_faults(inputs, code)]
        seen += [answer for answer in answers if answer is not None and not answer.problem]
    if any(has_noticed(answer) for answer in seen):
        return _make_result("passed", seen, _list_value_findings(inputs, values))
    if _has_survived(seen):
        return _make_survivor_result(inputs, seen)
    findings = [*_list_value_findings(inputs, values), *_list_weak_findings(inputs, seen)]
    return _make_result("passed", seen, findings)


def has_noticed(answer: TrialRun) -> bool:
    """Return True if one of the test's assertions failed; a crash does not count."""
    return answer.run.outcome == "fail" and any(
        failure.exception.rpartition(".")[2] in _ASSERTION_NAMES for failure in answer.run.failures
    )


def _has_survived(seen: Sequence[TrialRun]) -> bool:
    return all(answer.run.outcome not in FAILED_OUTCOMES for answer in seen)


def _list_value_faults(code: ExecutedCode) -> list[list[FileEdit]]:
    """Return the faults that a meaningful assertion notices: other values, and nothing at all."""
    return [change_values(code.sources, code.lines), replace_bodies(code.sources, code.lines, NOTHING)]


def _list_other_faults(inputs: ExperimentInputs, code: ExecutedCode) -> list[list[FileEdit]]:
    """Return crashes, exits and mutants."""
    mutants = choose_mutants(code.sources, code.lines, _MUTANT_COUNTS[inputs.level], inputs.seed)
    return [
        replace_bodies(code.sources, code.lines, FAILURE),
        replace_bodies(code.sources, code.lines, EXIT),
        *([FileEdit(path=one.path, start=one.start, end=one.end, new=one.new)] for one in mutants),
    ]


def _list_last_faults(inputs: ExperimentInputs, code: ExecutedCode) -> list[list[FileEdit]]:
    """Return other values of the constants that the test names, and the mutants that were not tried yet."""
    tried = _MUTANT_COUNTS[inputs.level]
    mutants = choose_mutants(code.sources, code.lines, tried + _LAST_MUTANTS, inputs.seed)[tried:]
    constants = change_constants(code.sources, code.lines, _list_names(inputs))
    edits = [[FileEdit(path=one.path, start=one.start, end=one.end, new=one.new)] for one in mutants]
    return [constants, *edits] if constants else edits


def _list_names(inputs: ExperimentInputs) -> set[str]:
    """Return the variables and attributes that the test mentions."""
    function = parse_function(inputs.read_files([inputs.test.path]).get(inputs.test.path, ""), inputs.test)
    nodes = [] if function is None else list(ast.walk(function))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _make_trial(inputs: ExperimentInputs, edits: list[FileEdit]) -> Trial:
    return Trial(tests=[inputs.test.id], edits=edits, timeout=inputs.trial_timeout, stops_early=True)


def _make_result(outcome: str, seen: Sequence[TrialRun], findings: Sequence[Finding] = ()) -> ExperimentResult:
    seconds = round(sum(answer.run.seconds for answer in seen), 3)
    noticed = sum(answer.run.outcome in FAILED_OUTCOMES for answer in seen)
    reason = f"of {len(seen)} faulty programs that mngr tried, {noticed} made the test fail"
    if not any(has_noticed(answer) for answer in seen):
        reason += ", all of them by a crash"
    row = Experiment(name=NAME, outcome=outcome, reason=reason, trials=len(seen), seconds=seconds)
    return ExperimentResult(row=row, findings=list(findings))


def _make_survivor_result(inputs: ExperimentInputs, seen: Sequence[TrialRun]) -> ExperimentResult:
    """Return the result of a test that passed with every fault."""
    reason = f"no experiment made this test fail: it passes with all {len(seen)} faulty programs that mngr tried"
    result = _make_result("failed", seen, [_make_finding(inputs, "never-fails", reason)])
    return result.replace(row=result.row.replace(reason=reason, prevents_confirmation=True))


def _list_value_findings(inputs: ExperimentInputs, values: TrialRun | None) -> list[Finding]:
    """Return a finding about a test that passes when all functions return and print other values."""
    if values is None or values.problem or values.run.outcome in FAILED_OUTCOMES:
        return []
    what = "it passes when all functions that it runs return and print other values"
    return [_make_finding(inputs, VALUES_UNNOTICED_RULE, what)]


def _list_weak_findings(inputs: ExperimentInputs, seen: Sequence[TrialRun]) -> list[Finding]:
    """Return a finding about a test that notices only crashes."""
    if any(answer.run.outcome in FAILED_OUTCOMES for answer in seen[:2]):
        return []
    what = "it passes when the code does nothing and when it returns other values; only a crash makes it fail"
    return [_make_finding(inputs, "only-crashes-fail", what)]


def _make_no_code_result(inputs: ExperimentInputs) -> ExperimentResult:
    what = "mngr saw no Python code of the project that this test runs, so it could not try whether the test can fail"
    starts_program = bool(inputs.first_run.programs)
    if not starts_program:
        what = "the test runs no code of the project and starts no program, so no fault of the project can make it fail"
    row = Experiment(name=NAME, outcome="unclear", reason=what, prevents_confirmation=not starts_program)
    return ExperimentResult(row=row, findings=[_make_finding(inputs, "runs-no-code", what)])


def _make_finding(inputs: ExperimentInputs, rule: str, what: str) -> Finding:
    line = find_changed_line(inputs.find_change(inputs.test.path), inputs.test)
    return Finding(rule=rule, level="note", path=inputs.test.path, line=line, what=what)
