"""The experiment `new_conditions`: does the test need the conditions that a fix adds?

A condition that only the input of the test meets is a special case. mngr makes each new condition always true. If the
test still passes, nothing shows that the condition is right. Only conditions that can name an input are tried: those that
contain a text, a number above 1, or a new constant of the module.
"""

from __future__ import annotations

import ast

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import FileEdit, Trial, TrialRun
from mngr.tmr.verify.experiments.changed_test_lines import list_changed_lines
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.special_cased_inputs import list_implementation_changes, names_an_input
from mngr.tmr.verify.mutants.faults import Fault, list_faults
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import parse_source

NAME = "new_conditions"
_MOST = {"quick": 2, "full": 8}


class _Condition(Struct):
    """A new condition of the implementation."""

    path: str
    fault: Fault


def try_new_conditions(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the test with new conditions that are always true, one at a time."""
    if not list_implementation_changes(inputs.changes):
        return not_examined(NAME, "the claim does not change the implementation")
    conditions = _list_conditions(inputs)[: _MOST[inputs.level]]
    if not conditions:
        return not_examined(NAME, "the claim adds no condition that can name an input to the implementation")
    answers = yield [_make_trial(inputs, condition) for condition in conditions]
    seen = [answer for answer in answers if answer is not None and not answer.problem]
    if not seen:
        return not_examined(NAME, NO_TIME)
    seconds = round(sum(answer.run.seconds for answer in seen), 3)
    row = Experiment(name=NAME, outcome="passed", trials=len(seen), seconds=seconds)
    findings = [
        _make_finding(inputs, condition)
        for condition, answer in zip(conditions, answers, strict=True)
        if _passes(inputs, answer)
    ]
    if findings:
        row = row.replace(outcome="failed", reason=findings[0].what)
    return ExperimentResult(row=row, findings=findings)


def _list_conditions(inputs: ExperimentInputs) -> list[_Condition]:
    """Return the conditions in changed lines that the old code does not have."""
    return [
        _Condition(path=change.path, fault=fault)
        for change in list_implementation_changes(inputs.changes)
        for fault in list_faults(change.new or "", set(list_changed_lines(change)))
        if fault.kind == "condition" and fault.new == "True" and fault.old not in (change.old or "")
        if _can_name_input(change, fault.old)
    ]


def _can_name_input(change: ChangedFile, code: str) -> bool:
    """True when a condition contains a text, a number above 1, or a constant that the claim adds to the module."""
    condition = parse_source(f"({code.strip()})")
    if condition is None:
        return True
    nodes = list(ast.walk(condition))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    added = _list_module_names(change.new) - _list_module_names(change.old)
    return bool(names & added) or any(isinstance(node, ast.Constant) and names_an_input(node) for node in nodes)


def _list_module_names(text: str | None) -> set[str]:
    tree = parse_source(text)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign)] if tree is not None else []
    return {part.id for node in assigned for part in ast.walk(node) if isinstance(part, ast.Name)}


def _make_trial(inputs: ExperimentInputs, condition: _Condition) -> Trial:
    fault = condition.fault
    edit = FileEdit(path=condition.path, start=fault.start, end=fault.end, new=fault.new)
    return Trial(tests=[inputs.test.id], edits=[edit], timeout=inputs.trial_timeout, always=True)


def _passes(inputs: ExperimentInputs, answer: TrialRun | None) -> bool:
    return answer is not None and not answer.problem and answer.find_outcome(inputs.test.id) == "pass"


def _make_finding(inputs: ExperimentInputs, condition: _Condition) -> Finding:
    code = " ".join(condition.fault.old.split())[:100]
    what = f"{inputs.test.name} also passes if the new condition `{code}` is always true"
    return Finding(rule="condition-unneeded", level="note", path=condition.path, line=condition.fault.line, what=what)
