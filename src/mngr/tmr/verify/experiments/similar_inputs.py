"""The experiment `similar_inputs`: does a fix change more than the input of its test?

mngr records the calls of the changed functions during the test. It makes the same calls with similar input, twice, on
another day and in another directory, with the code of the claim and with that of the base. A difference between the
two versions shows what the fix changes.
"""

from __future__ import annotations

import ast
import re
import secrets
from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, get_text
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.trials import Trial, TrialRun
from mngr.tmr.verify.experiments.changed_test_lines import list_changed_lines, parse_function
from mngr.tmr.verify.experiments.code_in_test_file import read_report, write_loader
from mngr.tmr.verify.experiments.experiment import (
    NO_TIME,
    Experiment,
    ExperimentInputs,
    ExperimentPlan,
    ExperimentResult,
    not_examined,
)
from mngr.tmr.verify.experiments.probed_functions import list_probed_functions, write_probed_file
from mngr.tmr.verify.experiments.special_cased_inputs import list_implementation_changes, list_new_constants
from mngr.tmr.verify.red_green import is_implementation
from mngr.tmr.verify.rules.changed_file import ChangedFile
from mngr.tmr.verify.rules.python_source import parse_source

NAME = "similar_inputs"
_MOST_INPUTS = {"quick": 24, "full": 60}  # similar inputs for each call
_SECONDS = {"quick": 0.8, "full": 6.0}  # for all similar calls of one process
_MIN_INPUTS = 4  # fewer prove nothing
_MIN_OTHER_LENGTHS = 3
_NARROW = 0.2  # the part of the similar inputs that a fix of one input changes at most
_SAME = 0.6  # the part of the changed outcomes that are the tested answer, at least
_CONDITIONS = {
    "later": "on another day",
    "elsewhere": "in another directory",
    "untested": "without pytest and its variables",
    "again": "when the same call is made for the second time",
}
_TEMPORARY = re.compile(r"(?<=/pytest-)\d+")  # differs in each run
_TRIVIAL = ("None", "True", "False", "''", "0", "[]", "()", "{}", "b''")


class _Outcome(Struct):
    kind: str  # same | again | later | elsewhere | untested | similar | other_length | useless
    input: str
    result: str
    place: str = ""  # the part of the input that is replaced

    @property
    def is_error(self) -> bool:
        return self.result.startswith("raises")


class _Call(Struct):
    """One call of a changed function, with the outcomes of the same and of similar calls."""

    name: str
    input: str
    outcomes: list[_Outcome]

    def list_results(self, kind: str) -> list[str]:
        return [outcome.result for outcome in self.outcomes if outcome.kind == kind]

    @property
    def is_stable(self) -> bool:
        """True when the same call had the same outcome in two processes."""
        results = self.list_results("same")
        return len(results) == 2 and results[0] == results[1] and not results[0].startswith("unknown")


def try_similar_inputs(inputs: ExperimentInputs) -> ExperimentPlan:
    """Make similar calls with the new and the old implementation, and judge the differences."""
    changes = list_implementation_changes(inputs.changes)
    if not changes and _list_data_changes(inputs):
        return _make_unclear(inputs, "the fix changes only files that are no Python code")
    if not changes:
        return not_examined(NAME, "the claim does not change the implementation")
    token = secrets.token_hex(8)
    new_files, old_files = (_write_files(inputs, token, is_new=is_new) for is_new in (True, False))
    if not new_files:
        return _make_unclear(inputs, "mngr cannot make similar calls of the changed code")
    answers = yield [_make_trial(inputs, new_files), _make_trial(inputs, old_files)]
    new, old = (_read_calls(answer, token) for answer in answers)
    seconds = round(sum(answer.run.seconds for answer in answers if answer is not None), 3)
    row = Experiment(name=NAME, outcome="passed", trials=2, seconds=seconds)
    if answers[0] is None:
        return not_examined(NAME, NO_TIME)
    return _judge(inputs, row, new, old)


def _make_trial(inputs: ExperimentInputs, files: dict[str, str | None]) -> Trial:
    return Trial(tests=[inputs.test.id], files=files, timeout=2 * inputs.trial_timeout, always=True)


# Writing the files


def _write_test(inputs: ExperimentInputs, token: str, report: str) -> str | None:
    """Return the test's file in which the test fails with the report of the probes."""
    text = inputs.read_files([inputs.test.path]).get(inputs.test.path, "")
    if parse_function(text, inputs.test) is None:
        return None
    name = ".".join(inputs.test.id.split("::")[1:])
    wrapped = f"_mngr['report_test']({name}, {report!r}, {token!r})"
    return f"{text}\n\n{write_loader('similar_calls_report.py')}{name} = {wrapped}\n"


def _write_files(inputs: ExperimentInputs, token: str, *, is_new: bool) -> dict[str, str | None]:
    """Return the test, and the implementation of the claim or of the base with probes around the changed functions.

    Return nothing if mngr cannot write such files.
    """
    files: dict[str, str | None] = {}
    report, level = f"/tmp/similar-{token}-{'new' if is_new else 'old'}", inputs.level
    call = f"{report!r}, {inputs.seed}, {_MOST_INPUTS[level]}, {_SECONDS[level]}"
    for change in list_implementation_changes(inputs.changes):
        text, names = change.new if is_new else change.old, list_probed_functions(change)
        probed = write_probed_file(text, names, call) if text and names else None
        if probed is not None:
            files[change.path] = probed
        elif not is_new and change.new != text:
            files[change.path] = text
    test_text = _write_test(inputs, token, report)
    return {**files, inputs.test.path: test_text} if files and test_text else {}


# Reading the reports


def _read_calls(answer: TrialRun | None, token: str) -> dict[tuple[str, str], _Call]:
    """Return the calls that the probes reported, by function and input."""
    if answer is None or answer.problem:
        return {}
    calls: dict[tuple[str, str], _Call] = {}
    for failure in answer.run.failures:
        for row in as_list(read_report(failure.message, token)):
            if isinstance(row, dict):
                outcomes = [as_list(item) for item in as_list(row.get("outcomes"))]
                call = _Call(
                    name=get_text(row, "name"),
                    input=get_text(row, "input"),
                    outcomes=[
                        _Outcome(
                            kind=str(item[0]),
                            input=str(item[1]),
                            result=str(item[2]),
                            place=_TEMPORARY.sub("", str(item[3])),
                        )
                        for item in outcomes
                        if len(item) == 4
                    ],
                )
                calls.setdefault((call.name, _TEMPORARY.sub("", call.input)), call)
    return calls


# Judging


def _judge(
    inputs: ExperimentInputs,
    row: Experiment,
    new: Mapping[tuple[str, str], _Call],
    old: Mapping[tuple[str, str], _Call],
) -> ExperimentResult:
    pairs = [(call, old[key]) for key, call in new.items() if key in old]
    pairs = [(one, other) for one, other in pairs if one.is_stable and other.is_stable]
    changed = [(one, other) for one, other in pairs if one.list_results("same") != other.list_results("same")]
    if not changed:
        return _make_unclear(inputs, "mngr saw no call whose outcome the fix changes", row)
    reasons = [reason for one, other in pairs for reason in _list_condition_reasons(one, other)]
    constants = list_new_constants(inputs.changes)
    can_know_input = _adds_code(inputs) and bool(constants)
    narrow = [_find_narrow_reason(one, other) for one, other in changed] if can_know_input else []
    reasons += [reason for reason in narrow[:1] if reason and all(narrow)]
    for one, other in changed:
        found = [_find_same_answer(one, other)]
        if can_know_input:
            found += [
                _find_fixed_part(one, other),
                _find_fixed_value(one, constants),
                _find_length_reason(one, other),
            ]
        if _adds_handler(inputs):
            found.append(_find_lost_error(one, other))
        reasons += [reason for reason in found if reason]
    findings = [_make_finding(inputs, rule, what) for rule, what in dict(reasons).items()]
    if findings:
        row = row.replace(outcome="failed", reason=findings[0].what)
    elif all(len(_list_similar(one, other)) < _MIN_INPUTS for one, other in changed):
        return _make_unclear(inputs, "mngr found too few similar inputs", row)
    return ExperimentResult(row=row, findings=findings)


def _adds_code(inputs: ExperimentInputs) -> bool:
    """True when the new implementation is larger. A smaller one has no additional special case."""
    sizes = [
        sum(1 for _ in ast.walk(tree)) if (tree := parse_source(text)) is not None else 0
        for change in list_implementation_changes(inputs.changes)
        for text in (change.new, change.old)
    ]
    return sum(sizes[::2]) > sum(sizes[1::2])


def _adds_handler(inputs: ExperimentInputs) -> bool:
    """True when the new implementation has more places that catch errors."""
    return any(
        _count_handlers(change.new) > _count_handlers(change.old)
        for change in list_implementation_changes(inputs.changes)
    )


def _count_handlers(text: str | None) -> int:
    tree = parse_source(text)
    nodes = [] if tree is None else list(ast.walk(tree))
    return sum(
        isinstance(node, ast.ExceptHandler)
        or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"))
        for node in nodes
    )


def _list_useful(new: _Call, old: _Call) -> list[tuple[_Outcome, _Outcome]]:
    """Return the outcomes of the similar inputs that make a difference for one of the versions.

    An input that both versions reject, although they take the tested one, says nothing.
    """
    before, after = old.list_results("same")[0], new.list_results("same")[0]
    takes_errors = before.startswith("raises") or after.startswith("raises")
    return [
        (one, other)
        for one, other in _list_similar(new, old)
        if (one.result != after or other.result != before) and (takes_errors or not (one.is_error and other.is_error))
    ]


def _list_similar(
    new: _Call, old: _Call, kinds: Sequence[str] = ("similar", "other_length")
) -> list[tuple[_Outcome, _Outcome]]:
    """Return the outcomes of both versions with each similar input."""
    known = {(outcome.place, outcome.input): outcome for outcome in old.outcomes if outcome.kind in kinds}
    pairs = [
        (outcome, known[outcome.place, outcome.input])
        for outcome in new.outcomes
        if outcome.kind in kinds and (outcome.place, outcome.input) in known
    ]
    return [pair for pair in pairs if not any(one.result.startswith("unknown") for one in pair)]


def _list_condition_reasons(new: _Call, old: _Call) -> list[tuple[str, str]]:
    """Return the conditions under which only the new version has another outcome."""
    before, after = old.list_results("same")[0], new.list_results("same")[0]
    return [
        ("depends-on-condition", f"{new.name} gives {other[0][:120]} instead of {after[:120]} {words}")
        for kind, words in _CONDITIONS.items()
        if (other := new.list_results(kind)) and other[0] != after and not other[0].startswith("unknown")
        if (others := old.list_results(kind)) and others[0] == before
    ]


def _find_narrow_reason(new: _Call, old: _Call) -> tuple[str, str] | None:
    """Return a reason if the fix changes the tested input and hardly any similar one."""
    pairs = _list_useful(new, old)
    changed = [one for one, other in pairs if one.result != other.result]
    if len(pairs) < _MIN_INPUTS or len(changed) > _NARROW * len(pairs):
        return None
    example = next(one for one, other in pairs if one.result == other.result)
    what = f"{new.name} changes for the input {new.input[:120]}, but for {len(pairs) - len(changed)} of {len(pairs)}"
    return (
        "only-tested-input",
        f"{what} similar ones it gives the same as before, for example with {example.input[:120]}",
    )


def _find_fixed_part(new: _Call, old: _Call) -> tuple[str, str] | None:
    """Return a reason if the fix has no effect with any other value in one part of the input."""
    pairs = _list_useful(new, old)
    for place in dict.fromkeys(one.place for one, _ in pairs):
        here = [(one, other) for one, other in pairs if one.place == place]
        if len(here) >= _MIN_INPUTS - 1 and all(one.result == other.result for one, other in here):
            what = f"{new.name} gives the same as before for all {len(here)} other values in one part of the input"
            return "only-tested-input", f"{what}, for example with {here[0][0].input[:120]}"
    return None


def _find_fixed_value(new: _Call, constants: set[str]) -> tuple[str, str] | None:
    """Return a reason if a part of the input has no effect, and the new code contains its value."""
    answer = new.list_results("same")[0]
    similar = [outcome for outcome in new.outcomes if outcome.kind in ("similar", "other_length")]
    for place in dict.fromkeys(outcome.place for outcome in similar):
        name, _, value = place.partition("=")
        here = [outcome for outcome in similar if outcome.place == place]
        if value in constants and len(here) >= _MIN_INPUTS and all(outcome.result == answer for outcome in here):
            name = name.rpartition(".")[2]
            what = f"{new.name} gives the same for all {len(here)} other values of {name}, and the new code contains {value[:80]}"
            return "only-tested-input", what
    return None


def _find_length_reason(new: _Call, old: _Call) -> tuple[str, str] | None:
    """Return a reason if the fix changes no input of another length than the tested one."""
    pairs = _list_similar(new, old, ["other_length"])
    others = [pair for pair in pairs if not all(outcome.result.startswith("raises") for outcome in pair)]
    same_length = _list_similar(new, old, ["similar"])
    if len(others) < _MIN_OTHER_LENGTHS or any(one.result != other.result for one, other in others):
        return None
    if not any(one.result != other.result for one, other in same_length):
        return None
    what = f"{new.name} gives the same as before for all {len(others)} similar inputs of another length"
    return "only-tested-length", f"{what}, for example with {others[0][0].input[:120]}"


def _find_same_answer(new: _Call, old: _Call) -> tuple[str, str] | None:
    """Return a reason if most of the other inputs that the fix changes give the answer of the test."""
    answer, before = new.list_results("same")[0], old.list_results("same")[0]
    pairs = _list_useful(new, old)
    changed = [one for one, other in pairs if other.result not in (one.result, before)]
    same = [one for one in changed if one.result == answer]
    if len(same) < 2 or len(same) < _SAME * len(changed) or answer in _TRIVIAL or answer.startswith("raises"):
        return None
    if answer[0] in "[({" and answer.strip("[](){}") in new.input:  # the function selects a part of its input
        return None
    what = f"{new.name} gives {answer[:120]} for {len(same)} of {len(changed)} other inputs that the fix changes"
    return "same-answer", f"{what}, for example with {same[0].input[:120]}"


def _find_lost_error(new: _Call, old: _Call) -> tuple[str, str] | None:
    """Return a reason if each useless input that was an error before is none any more."""
    pairs = _list_similar(new, old, ["useless"])
    errors = [(one, other) for one, other in pairs if other.is_error and " and calls " not in other.result]
    if not errors or any(one.is_error for one, _ in errors):
        return None
    example = errors[0][0]
    what = f"with {example.input[:80]}, {new.name} gave an error before, and gives {example.result[:120]} now"
    return "error-swallowed", what


def _make_unclear(inputs: ExperimentInputs, reason: str, row: Experiment | None = None) -> ExperimentResult:
    """Return the result of a fix that mngr could not try with other input. A person must look at it if it can know one."""
    row = (row or Experiment(name=NAME, outcome="unclear")).replace(outcome="unclear", reason=reason)
    can_know_input = not list_implementation_changes(inputs.changes) or bool(list_new_constants(inputs.changes))
    return ExperimentResult(
        row=row, findings=[_make_finding(inputs, "only-tested-once", reason)] if can_know_input else []
    )


def _list_data_changes(inputs: ExperimentInputs) -> list[ChangedFile]:
    """Return the changed text files that are neither Python code, tests nor text for people."""
    return [
        change
        for change in inputs.changes
        if change.new is not None and is_implementation(change.path) and not change.path.endswith(".py")
    ]


def _make_finding(inputs: ExperimentInputs, rule: str, what: str) -> Finding:
    change = (list_implementation_changes(inputs.changes) or _list_data_changes(inputs))[0]
    line = (list_changed_lines(change) or [0])[0]
    return Finding(rule=rule, level="note", path=change.path, line=line, what=what)
