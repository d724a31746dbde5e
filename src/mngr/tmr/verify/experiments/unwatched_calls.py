"""The experiment `unwatched_calls`: does the program do the same when no test watches?

mngr records the calls and commands with plain arguments that the test makes. It makes them again in a process without
pytest, its environment variables and test frames, and once more inside a test of the same name.
"""

from __future__ import annotations

import json
import secrets
import textwrap
from collections.abc import Mapping, Sequence

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, get_objects, get_text
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
from mngr.tmr.verify.experiments.special_cased_inputs import list_implementation_changes

NAME = "unwatched_calls"


class _Record(Struct):
    """What a test called."""

    steps: str  # in JSON
    path: str  # the interpreter's search path, in JSON
    calls: list[str]
    results: list[str]


def replay_unwatched(inputs: ExperimentInputs) -> ExperimentPlan:
    """Record the calls of the test, make them again without pytest, and judge the differences."""
    if not list_implementation_changes(inputs.changes):
        return not_examined(NAME, "the claim does not change the implementation")
    token = secrets.token_hex(8)
    text = inputs.read_files([inputs.test.path]).get(inputs.test.path, "")
    recording = _write_recording(inputs, text, token)
    if recording is None:
        return not_examined(NAME, "mngr cannot record the calls of this test")
    [recorded] = yield [_make_trial(inputs, recording)]
    record = None if recorded is None or recorded.problem else _read_record(recorded, token)
    if recorded is None or record is None:
        return not_examined(
            NAME, NO_TIME if recorded is None else "the test does not pass while mngr records its calls"
        )
    if not record.steps or not record.calls:
        return not_examined(NAME, "the test makes no call with plain arguments that mngr can make again")
    program = _write_program(record, token)
    script = Trial(tests=[], script=program, timeout=inputs.trial_timeout, always=True)
    answers = yield [script, script, _make_trial(inputs, _write_watched_replay(inputs, program))]
    row = Experiment(
        name=NAME,
        outcome="passed",
        trials=4,
        seconds=round(sum(answer.run.seconds for answer in (recorded, *answers) if answer is not None), 3),
    )
    return _judge(inputs, row, record, [_read_results(answer, token) for answer in answers])


def _make_trial(inputs: ExperimentInputs, text: str) -> Trial:
    files: dict[str, str | None] = {inputs.test.path: text}
    return Trial(tests=[inputs.test.id], files=files, timeout=inputs.trial_timeout, always=True)


# The programs that record and replay


def _write_recording(inputs: ExperimentInputs, text: str, token: str) -> str | None:
    """Return the test's file in which the test reports its calls, or None for a test that mngr cannot wrap."""
    if parse_function(text, inputs.test) is None:
        return None
    *owners, name = inputs.test.id.split("::")[1:]
    owner = ".".join(owners)
    own_name = f"{owner}.{name}" if owner else name
    wrapped = f"_mngr['record_test']({own_name}, __import__('os').getcwd(), {token!r})"
    return f"{text}\n\n{write_loader('recorded_calls.py')}{own_name} = {wrapped}\n"


def _write_program(record: _Record, token: str) -> str:
    """Return a program that makes the recorded calls and prints their results."""
    return (
        f"{write_loader('recorded_calls.py')}import json as _j\n_s.path[:] = _j.loads({record.path!r})\n"
        f"_result = {token!r} + _mngr['pack'](_mngr['replay_steps'](_j.loads({record.steps!r})))\n"
        "print(_result, flush=True)\n"
    )


def _write_watched_replay(inputs: ExperimentInputs, program: str) -> str:
    """Return a test file whose only test, of the same name, makes the recorded calls and fails with their results."""
    *owners, name = inputs.test.id.split("::")[1:]
    body = program.replace("print(_result, flush=True)", "raise AssertionError(_result)")
    code = f"def {name}({'self' if owners else ''}):\n{textwrap.indent(body, '    ')}"
    for owner in reversed(owners):
        code = f"class {owner}:\n{textwrap.indent(code, '    ')}"
    return code


# Reading what they report


def _read_record(trial: TrialRun, token: str) -> _Record | None:
    """Return the record of the first of the test's parameters that called anything, or None without a record."""
    records: list[_Record] = []
    for failure in trial.run.failures:
        value = read_report(failure.message, token)
        if not isinstance(value, dict):
            continue
        steps = get_objects(value, "steps")
        calls = [_describe_step(step) for step in steps]
        results = [get_text(step, "result") for step in steps]
        path = [entry for entry in as_list(value.get("path")) if isinstance(entry, str)]
        records.append(_Record(steps=json.dumps(steps), path=json.dumps(path), calls=calls, results=results))
    return next((record for record in records if record.calls), records[0] if records else None)


def _describe_step(step: Mapping[str, object]) -> str:
    target = as_list(step.get("target"))
    args = get_text(step, "args")
    if target[:1] == ["command"]:
        return f"the command {args}"
    if target[:1] == ["click"]:
        return f"the command {target[-1]} with {args}"
    return f"{target[-1] if target else ''}({args[1:-1]})"


def _read_results(trial: TrialRun | None, token: str) -> list[str] | None:
    """Return the results that a replay printed or failed with, or None if it printed nothing."""
    if trial is None or trial.problem:
        return None
    texts = [failure.message for failure in trial.run.failures] or [trial.output]
    for text in (*texts, trial.output):
        value = read_report(text, token)
        if isinstance(value, list):
            return [item if isinstance(item, str) else "" for item in value]
    return None


def _judge(
    inputs: ExperimentInputs, row: Experiment, record: _Record, replays: Sequence[list[str] | None]
) -> ExperimentResult:
    first, second, watched = replays
    if first is None or second is None or not (len(first) == len(second) == len(record.results)):
        return ExperimentResult(row=row.replace(outcome="unclear", reason="the calls could not be made again"))
    for index, (seen, one, other) in enumerate(zip(record.results, first, second, strict=True)):
        if one != other or one == seen:
            continue
        inside = watched[index] if watched is not None and index < len(watched) else one
        if inside != one:
            finding = _make_finding(inputs, record.calls[index], seen, one)
            return ExperimentResult(row=row.replace(outcome="failed", reason=finding.what), findings=[finding])
        row = row.replace(outcome="unclear", reason=f"{record.calls[index][:200]} depends on what the test prepares")
    return ExperimentResult(row=row)


def _make_finding(inputs: ExperimentInputs, call: str, seen: str, unwatched: str) -> Finding:
    change = list_implementation_changes(inputs.changes)[0]
    line = (list_changed_lines(change) or [0])[0]
    what = f"without pytest, {call[:200]} gives {unwatched[:200]} instead of {seen[:200]}"
    return Finding(rule="differs-without-pytest", level="refuse", path=change.path, line=line, what=what)
