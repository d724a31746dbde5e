"""The experiment `old_and_new`: does the edited test still notice the faults that the old one noticed?

Both versions run against the same faulty programs, on the code of the claim. The changed tests of a file count together,
because an edit may move a check from one test to another.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Sequence
from itertools import zip_longest

from mngr.base.model import Struct
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.runners.pytest.trials import FileEdit, Trial, TrialRun
from mngr.tmr.runners.test_run import TestRun
from mngr.tmr.verify.experiments.can_fail import FAILED_OUTCOMES
from mngr.tmr.verify.experiments.changed_test_lines import (
    find_changed_line,
    list_changed_lines,
    list_changed_tests,
    parse_function,
)
from mngr.tmr.verify.experiments.executed_code import ExecutedCode, read_executed_code
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.text_rule_weight import FEWER_ASSERTIONS_RULE, MISSED_RULE, MOST_MISSED_RULE
from mngr.tmr.verify.mutants.function_faults import list_empty_value_faults, list_value_faults
from mngr.tmr.verify.mutants.mutant_selection import choose_mutants

NAME = "old_and_new"
MIN_KILLS = 3  # the new test must notice so many faults before it counts as equally strong
_FAULT_COUNTS = {"quick": 6, "full": 24}
_MAX_NAMED = 3  # faults that findings name


class _Fault(Struct):
    """One fault for both versions."""

    path: str
    line: int
    what: str
    edits: list[FileEdit]
    is_coarse: bool = False  # almost every test notices it


class _Comparison(Struct):
    """The faults that were tried, and how the versions ended with them."""

    runs: list[TrialRun] = []  # all of them, for the cost
    tried: int = 0
    new_kills: int = 0
    coarse_kills: int = 0
    newly_missed: list[_Fault] = []


def compare_old_and_new(inputs: ExperimentInputs) -> ExperimentPlan:
    """Run the new version against faults, the old one against those that the new one misses, and differences again."""
    if not inputs.is_test_changed:
        return not_examined(NAME, "the claim does not change the test")
    old_files = _list_old_files(inputs)
    change = inputs.find_change(inputs.test.path)
    if change is not None and parse_function(change.old or "", inputs.test) is None:
        return not_examined(NAME, "the base does not have this test")
    faults = _choose_faults(inputs, read_executed_code(inputs, [inputs.first_run]), _FAULT_COUNTS[inputs.level])
    old_run, *news = yield [
        _make_trial(inputs, files=old_files, trace=True),
        *(_make_trial(inputs, edits=fault.edits) for fault in faults),
    ]
    if old_run is None or old_run.problem:
        return not_examined(NAME, NO_TIME if old_run is None else old_run.problem)
    if old_run.run.outcome != "pass":
        row = not_examined(
            NAME, f"the old test does not pass on this code: {old_run.run.why or old_run.run.outcome}"
        ).row
        return ExperimentResult(row=row, findings=_list_data_findings(inputs))
    left_code = _find_left_code(inputs, old_run.run)
    left = _choose_faults(inputs, left_code, _FAULT_COUNTS[inputs.level] // 3)
    comparison = yield from _compare(inputs, old_files, left, list(zip(faults, news, strict=True)))
    comparison = comparison.replace(runs=[old_run, *comparison.runs])
    lost_assertions = _count_lost_assertions(inputs, old_run.run)
    row = _make_row(comparison)
    if row.outcome == "passed" and (lost_assertions or left_code.sources):
        row = row.replace(outcome="unclear", reason=f"{row.reason}, but the new test executes less than the old one")
    return ExperimentResult(row=row, findings=_list_findings(inputs, comparison, lost_assertions))


def _compare(
    inputs: ExperimentInputs,
    old_files: dict[str, str | None],
    left: list[_Fault],
    new_runs: Sequence[tuple[_Fault, TrialRun | None]],
) -> Generator[list[Trial], Sequence[TrialRun | None], _Comparison]:
    """Return which faults each version notices. Each difference is seen twice, and no other changed test notices it.

    `new_runs` are the runs of the new version with the faults. It does not reach the faults in `left`.
    """
    seen: list[TrialRun] = []

    def keep(answers: Sequence[TrialRun | None]) -> list[TrialRun | None]:
        known = [None if answer is None or answer.problem else answer for answer in answers]
        seen.extend(answer for answer in known if answer is not None)
        return known

    news = keep([run for _, run in new_runs])
    pairs = list(zip(new_runs, news, strict=True))
    missed = [fault for (fault, _), new in pairs if new is not None and not _has_failed(new)] + left
    olds = keep((yield [_make_trial(inputs, files=old_files, edits=fault.edits) for fault in missed]))
    differing = [fault for fault, old in zip(missed, olds, strict=True) if old is not None and _has_failed(old)]
    unknown = sum(old is None for old in olds)
    change = inputs.find_change(inputs.test.path)
    others = [] if change is None else list_changed_tests(change, inputs.test)
    trials = [_make_trial(inputs, tests=[inputs.test.id, *others])] if differing else []
    for fault in differing:
        trials.append(_make_trial(inputs, files=old_files, edits=fault.edits))
        trials.append(_make_trial(inputs, tests=[inputs.test.id, *others], edits=fault.edits))
    again = keep((yield trials))
    can_ask_others = bool(again) and again[0] is not None and again[0].run.outcome == "pass"
    newly_missed = [
        fault
        for fault, old, new in zip(differing, again[1::2], again[2::2], strict=True)
        if (old is None or _has_failed(old)) and not (can_ask_others and new is not None and _has_failed(new))
    ]
    tried = sum(new is not None for new in news) + len(left) - unknown
    return _Comparison(
        runs=seen,
        tried=tried,
        new_kills=tried - len(missed) + unknown,
        coarse_kills=sum(fault.is_coarse and new is not None and _has_failed(new) for (fault, _), new in pairs),
        newly_missed=newly_missed,
    )


def _has_failed(answer: TrialRun) -> bool:
    return answer.run.outcome in FAILED_OUTCOMES


def _make_trial(
    inputs: ExperimentInputs,
    *,
    files: dict[str, str | None] | None = None,
    tests: list[str] | None = None,
    edits: list[FileEdit] | None = None,
    trace: bool = False,
) -> Trial:
    return Trial(
        tests=tests or [inputs.test.id],
        files=files or {},
        edits=edits or [],
        timeout=inputs.trial_timeout,
        trace=trace,
        stops_early=True,
    )


def _list_old_files(inputs: ExperimentInputs) -> dict[str, str | None]:
    """Return the old text of the test's file and of changed code that it shares, None for a new file."""
    return {
        change.path: change.old
        for change in inputs.changes
        if change.path == inputs.test.path or (is_test_code(change.path) and not is_test_file(change.path))
        if change.old is not None or change.status == "A"
    }


def _list_data_findings(inputs: ExperimentInputs) -> list[Finding]:
    """Return a finding for each changed data file of the tests. With the old ones, the test does not pass."""
    what = f"{inputs.test.name} does not pass with the old content of this file"
    return [
        Finding(rule="test-data-changed", level="note", path=change.path, line=list_changed_lines(change)[0], what=what)
        for change in inputs.changes
        if is_test_code(change.path) and not change.path.endswith(".py") and change.old is not None
        if list_changed_lines(change)
    ]


def _find_left_code(inputs: ExperimentInputs, old_run: TestRun) -> ExecutedCode:
    """Return the code that the old version executes and the new one does not."""
    old, new = (read_executed_code(inputs, [run]) for run in (old_run, inputs.first_run))
    lines = {path: numbers - new.lines.get(path, set()) for path, numbers in old.lines.items()}
    return ExecutedCode(sources={path: old.sources[path] for path in lines if lines[path]}, lines=lines)


def _choose_faults(inputs: ExperimentInputs, code: ExecutedCode, most: int) -> list[_Fault]:
    """Return at most so many faults: functions with other or empty values, and mutants."""
    others, empty = (make(code.sources, code.lines) for make in (list_value_faults, list_empty_value_faults))
    by_turns = [fault for pair in zip_longest(others, empty) for fault in pair if fault is not None]
    faults = [
        _Fault(path=one.path, line=one.line, what=one.what, edits=one.edits, is_coarse=one in empty)
        for one in by_turns[: most // 3]
    ]
    mutants = choose_mutants(code.sources, code.lines, most - len(faults), inputs.seed)
    return faults + [
        _Fault(
            path=one.path,
            line=one.line,
            what=f"`{one.before}` becomes `{one.after}`",
            edits=[FileEdit(path=one.path, start=one.start, end=one.end, new=one.new)],
        )
        for one in mutants
    ]


def _make_row(comparison: _Comparison) -> Experiment:
    kills, count = comparison.new_kills, len(comparison.newly_missed)
    is_strong = kills - comparison.coarse_kills >= MIN_KILLS
    outcome = "failed" if count else "passed" if is_strong else "unclear"
    return Experiment(
        name=NAME,
        outcome=outcome,
        reason=f"of {comparison.tried} faults, the new test notices {kills}; only the old one notices {count}",
        trials=len(comparison.runs),
        seconds=round(sum(run.run.seconds for run in comparison.runs), 3),
    )


def _count_lost_assertions(inputs: ExperimentInputs, old_run: TestRun) -> int:
    """Return how many assertions fewer the new version executes."""
    change = inputs.find_change(inputs.test.path)
    if change is None or change.old is None or change.new is None:
        return 0
    counts = [
        _count_executed_assertions(parse_function(text, inputs.test), run.lines.get(inputs.test.path, []))
        for text, run in ((change.old, old_run), (change.new, inputs.first_run))
    ]
    return max(0, counts[0] - counts[1])


def _count_executed_assertions(function: ast.AST | None, lines: Sequence[int]) -> int:
    nodes = [] if function is None else [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    return sum(node.lineno in lines or node.test.lineno in lines for node in nodes)


def _list_findings(inputs: ExperimentInputs, comparison: _Comparison, lost_assertions: int) -> list[Finding]:
    """Return the findings, at the changed line of the test."""
    line = find_changed_line(inputs.find_change(inputs.test.path), inputs.test)
    missed = comparison.newly_missed
    rule = MOST_MISSED_RULE if len(missed) >= comparison.new_kills else MISSED_RULE
    sentences = [
        (
            rule,
            f"the old {inputs.test.name} noticed this fault, and the new one does not: {fault.path}:{fault.line}: {fault.what}",
        )
        for fault in missed[:_MAX_NAMED]
    ]
    if lost_assertions:
        count = "one assertion" if lost_assertions == 1 else f"{lost_assertions} assertions"
        sentences.append((FEWER_ASSERTIONS_RULE, f"{inputs.test.name} executes {count} fewer than before"))
    return [Finding(rule=rule, level="note", path=inputs.test.path, line=line, what=what) for rule, what in sentences]
