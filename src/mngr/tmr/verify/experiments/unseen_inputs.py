"""The experiment `unseen_inputs`: does a fix also work with input that its author did not see?

mngr replaces words and numbers that the test passes in and gets back, in the test and in its expectation alike. A fix
that works only with the original input has special-cased the test.
"""

from __future__ import annotations

from collections.abc import Sequence

from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import Trial, TrialRun
from mngr.tmr.verify.experiments.changed_test_lines import list_changed_lines, parse_function
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.special_cased_inputs import (
    SpecialCase,
    list_implementation_changes,
    list_special_cases,
    list_test_literals,
    list_words_of_program,
)
from mngr.tmr.verify.experiments.tests_with_other_inputs import Replacement, choose_replacements, write_test

NAME = "unseen_inputs"
_MAX_SINGLE = 5  # replacements that are tried one by one


def try_unseen_inputs(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the test with other words and numbers, all at once and then one by one."""
    if not list_implementation_changes(inputs.changes):
        return not_examined(NAME, "the claim does not change the implementation")
    path = inputs.test.path
    text = inputs.read_files([path]).get(path, "")
    notes = _list_notes(inputs, text)
    replacements = choose_replacements(text, inputs.test, inputs.seed)
    if not replacements:
        row = not_examined(NAME, "the test gets nothing back that it passes in").row
        return ExperimentResult(row=row, findings=notes)
    [together] = yield [_make_trial(inputs, text, replacements)]
    if together is None or together.problem:
        return ExperimentResult(row=not_examined(NAME, NO_TIME).row, findings=notes)
    row = Experiment(name=NAME, outcome="passed", trials=1, seconds=round(together.run.seconds, 3))
    if together.find_outcome(inputs.test.id) == "pass":
        return ExperimentResult(row=row, findings=notes)
    singles = replacements[:_MAX_SINGLE]
    trials = [_make_trial(inputs, text, []), *(_make_trial(inputs, text, [one]) for one in singles)]
    unchanged, *answers = yield [*trials[:2], *(trial.replace(always=False) for trial in trials[2:])]
    seen = [answer for answer in (together, unchanged, *answers) if answer is not None]
    row = row.replace(trials=len(seen), seconds=round(sum(answer.run.seconds for answer in seen), 3))
    if unchanged is None or unchanged.find_outcome(inputs.test.id) != "pass":
        reason = NO_TIME if unchanged is None else "the test does not pass when mngr writes it in its own format"
        return ExperimentResult(row=row.replace(outcome="unclear", reason=reason), findings=notes)
    failing = [one for one, answer in zip(singles, answers, strict=True) if _fails(inputs, answer)]
    return _judge(inputs, row, failing, notes)


def _make_trial(inputs: ExperimentInputs, text: str, replacements: list[Replacement]) -> Trial:
    path = inputs.test.path
    files: dict[str, str | None] = {path: write_test(text, inputs.test, replacements) or text}
    return Trial(tests=[inputs.test.id], files=files, timeout=inputs.trial_timeout, always=True)


def _fails(inputs: ExperimentInputs, answer: TrialRun | None) -> bool:
    return answer is not None and not answer.problem and answer.find_outcome(inputs.test.id) in ("fail", "error")


def _judge(
    inputs: ExperimentInputs, row: Experiment, failing: Sequence[Replacement], notes: list[Finding]
) -> ExperimentResult:
    words = list_words_of_program(inputs.changes)
    failing = [one for one in failing if one.old not in words]
    if not failing:
        reason = "the test fails with other input, but the words may belong to the program"
        return ExperimentResult(row=row.replace(outcome="unclear", reason=reason), findings=notes)
    cases = list_special_cases(inputs.changes)
    for replacement in failing:
        case = next((case for case in cases if _is_keyed_by(case, replacement)), None)
        if case is not None:
            finding = _make_finding(case.path, case.line, replacement, _describe(case), "refuse")
            return ExperimentResult(row=row.replace(outcome="failed", reason=finding.what), findings=[*notes, finding])
    change = list_implementation_changes(inputs.changes)[0]
    line = (list_changed_lines(change) or [0])[0]
    finding = _make_finding(change.path, line, failing[0], "", "note")
    return ExperimentResult(row=row.replace(outcome="failed", reason=finding.what), findings=[*notes, finding])


def _is_keyed_by(case: SpecialCase, replacement: Replacement) -> bool:
    return case.is_hash or replacement.old in case.literal


def _describe(case: SpecialCase) -> str:
    return ", and the new code compares a hash" if case.is_hash else f", and the new code looks for {case.literal[:80]}"


def _make_finding(path: str, line: int, replacement: Replacement, addition: str, level: str) -> Finding:
    what = f"the test passes with {replacement.old!r} and fails with {replacement.new!r}{addition}"
    return Finding(
        rule="only-original-input",
        level=level,
        path=path,
        line=line,
        what=what,
        old=replacement.old,
        new=replacement.new,
    )


def _list_notes(inputs: ExperimentInputs, text: str) -> list[Finding]:
    """Return a note for each literal of the test that new code of the implementation looks for."""
    function = parse_function(text, inputs.test)
    literals = set() if function is None else list_test_literals(function)
    return [
        Finding(
            rule="literal-of-test",
            level="note",
            path=case.path,
            line=case.line,
            what=f"the new code looks for {case.literal[:80]}, which is a literal of {inputs.test.name}",
        )
        for case in list_special_cases(inputs.changes)
        if case.literal in literals
    ]
