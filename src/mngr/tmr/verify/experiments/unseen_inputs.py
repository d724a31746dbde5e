"""The experiment `unseen_inputs`: does a fix also work with input that its author did not see?

mngr replaces words and numbers in the test, in its fixtures and in the expected values alike. If the test then fails in the
same way with the code of the base, the fix has no effect on the other input: it has special-cased the test.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Generator, Mapping, Sequence

from mngr.base.model import Struct
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
    list_new_constants,
    list_special_cases,
    list_test_literals,
    list_words_of_program,
)
from mngr.tmr.verify.experiments.tests_with_other_inputs import Replacement, choose_replacements, write_test

NAME = "unseen_inputs"
_MAX_SINGLE = {"quick": 4, "full": 8}  # replacements that are tried one by one
_NO_EFFECT = "with other input, the test fails with a part of the fix or with a word of the program"
_OTHER_FAILURE = "with other input, the test fails in another way than with the code of the base"
_TEMPORARY = re.compile(r"(?<=pytest-)\d+|0x[0-9a-f]+")  # differs in each run


class _Ending(Struct):
    """How a test failed: the line of its file, the exception and the message."""

    line: int
    exception: str
    message: str


def try_unseen_inputs(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the test with other words and numbers, all at once and then one by one."""
    if not list_implementation_changes(inputs.changes):
        return not_examined(NAME, "the claim does not change the implementation")
    texts = _read_test_files(inputs)
    notes = _list_notes(inputs, texts.get(inputs.test.path, ""))
    constants = list_new_constants(inputs.changes)
    replacements = [
        one
        for one in choose_replacements(texts, inputs.test, inputs.seed)
        if one.comes_back or any(one.old in constant for constant in constants)
    ]
    if not replacements:
        row = not_examined(NAME, "the test gets nothing back that it passes in").row
        return ExperimentResult(row=row, findings=notes)
    [together] = yield [_make_trial(inputs, texts, replacements)]
    if together is None or together.problem:
        return ExperimentResult(row=not_examined(NAME, NO_TIME).row, findings=notes)
    row = Experiment(name=NAME, outcome="passed", trials=1, seconds=round(together.run.seconds, 3))
    if together.find_outcome(inputs.test.id) == "pass":
        return ExperimentResult(row=row, findings=notes)
    both_ways = [one for one in replacements if one.comes_back]
    unchanged, *before, returned = yield [
        _make_trial(inputs, texts, []),
        _make_trial(inputs, texts, [], is_old=True),
        _make_trial(inputs, texts, replacements, is_old=True),
        _make_trial(inputs, texts, both_ways).replace(always=False),
    ]
    row = _add_cost(row, [unchanged, *before, returned])
    if unchanged is None or unchanged.find_outcome(inputs.test.id) != "pass":
        reason = NO_TIME if unchanged is None else "the test does not pass when mngr writes it in its own format"
        return ExperimentResult(row=row.replace(outcome="unclear", reason=reason), findings=notes)
    lines = {ending.line for ending in _list_endings(inputs, before[0])}
    if not _has_no_effect(inputs, together, before[1], lines):
        if not both_ways or returned is None or returned.find_outcome(inputs.test.id) != "pass":
            row = row.replace(outcome="unclear", reason=_OTHER_FAILURE)
        return ExperimentResult(row=row, findings=notes)
    row, failing = yield from _find_failing_words(inputs, texts, row, replacements, lines)
    return _judge(inputs, row, failing, notes)


def _find_failing_words(
    inputs: ExperimentInputs,
    texts: Mapping[str, str],
    row: Experiment,
    replacements: list[Replacement],
    lines: set[int],
) -> Generator[list[Trial], Sequence[TrialRun | None], tuple[Experiment, list[Replacement]]]:
    """Return the words without which the fix has no effect. Those that the new code contains come first."""
    words, constants = list_words_of_program(inputs.changes), " ".join(list_new_constants(inputs.changes))
    singles = [one for one in replacements if one.old not in words and not inputs.is_word_of_base(one.old)]
    singles = sorted(singles, key=lambda one: one.old not in constants)[: _MAX_SINGLE[inputs.level]]
    trials = [_make_trial(inputs, texts, [one], is_old=is_old) for one in singles for is_old in (False, True)]
    answers = yield [*trials[:4], *(trial.replace(always=False) for trial in trials[4:])]
    pairs = list(zip(answers[::2], answers[1::2], strict=True))
    failing = [one for one, pair in zip(singles, pairs, strict=True) if _has_no_effect(inputs, pair[0], pair[1], lines)]
    return _add_cost(row, answers), failing


def _read_test_files(inputs: ExperimentInputs) -> dict[str, str]:
    """Return the test's file, and the conftest files of its directory and of those above."""
    places = [posixpath.dirname(inputs.test.path)]
    while places[-1]:
        places.append(posixpath.dirname(places[-1]))
    return inputs.read_files([inputs.test.path, *(posixpath.join(place, "conftest.py") for place in places)])


def _make_trial(
    inputs: ExperimentInputs, texts: Mapping[str, str], replacements: list[Replacement], *, is_old: bool = False
) -> Trial:
    """Return a trial of the test with other input, with the implementation of the claim or of the base."""
    files = write_test(texts, inputs.test, replacements)
    if is_old:
        files |= {change.path: change.old for change in list_implementation_changes(inputs.changes)}
    return Trial(tests=[inputs.test.id], files=files, timeout=inputs.trial_timeout, always=True)


def _add_cost(row: Experiment, answers: Sequence[TrialRun | None]) -> Experiment:
    seen = [answer for answer in answers if answer is not None]
    seconds = row.seconds + sum(answer.run.seconds for answer in seen)
    return row.replace(trials=row.trials + len(seen), seconds=round(seconds, 3))


def _list_endings(inputs: ExperimentInputs, answer: TrialRun | None) -> list[_Ending]:
    """Return how the test failed, with each of its parameters in turn."""
    if answer is None or answer.problem:
        return []
    return [
        _Ending(
            line=next((frame.line for frame in failure.frames if frame.path == inputs.test.path), 0),
            exception=failure.exception,
            message=_TEMPORARY.sub("", failure.message),
        )
        for failure in answer.run.failures
    ]


def _has_no_effect(inputs: ExperimentInputs, new: TrialRun | None, old: TrialRun | None, lines: set[int]) -> bool:
    """True when the test fails in the same way with the fix as without it, where it also fails with the original input."""
    endings = _list_endings(inputs, new)
    return bool(endings) and endings == _list_endings(inputs, old) and any(one.line in lines for one in endings)


def _judge(
    inputs: ExperimentInputs, row: Experiment, failing: Sequence[Replacement], notes: list[Finding]
) -> ExperimentResult:
    cases, constants = list_special_cases(inputs.changes), list_new_constants(inputs.changes)
    for replacement in failing:
        case = next((case for case in cases if _is_keyed_by(case, replacement)), None)
        if case is not None and replacement.comes_back:
            finding = _make_finding(case.path, case.line, replacement, _describe(case), "refuse")
            return ExperimentResult(row=row.replace(outcome="failed", reason=finding.what), findings=[*notes, finding])
    change = list_implementation_changes(inputs.changes)[0]
    line = (list_changed_lines(change) or [0])[0]
    for replacement in failing:
        constant = next((text for text in sorted(constants) if replacement.old in text), "")
        if constant or replacement.comes_back:
            what = f", and the new code contains {constant[:80]}" if constant else ""
            finding = _make_finding(change.path, line, replacement, what, "note")
            return ExperimentResult(row=row.replace(outcome="failed", reason=finding.what), findings=[*notes, finding])
    return ExperimentResult(row=row.replace(outcome="unclear", reason=_NO_EFFECT), findings=notes)


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
