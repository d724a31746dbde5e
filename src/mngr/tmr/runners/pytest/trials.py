"""Runs trials: short runs of tests with changed files, many in one command of a clean room.

The driver in `in_clean_room/trial_driver.py` forks one child for each trial. It restores all files and ends all
processes between trials.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence

from mngr.base.json_structs import decode, encode
from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.base.untrusted_json import as_list, parse_json
from mngr.tmr.cleanroom.clean_room import CleanRoom, CommandOutcome, Observer, ObserverRow, parse_row
from mngr.tmr.cleanroom.program_sources import read_program
from mngr.tmr.cleanroom.sandbox import CLEAN_ROOM_HOME, escape_control_characters, list_violations
from mngr.tmr.runners.pytest.in_clean_room.replaced_files import pack_text
from mngr.tmr.runners.pytest.observer_report import parse_phase, select_rows
from mngr.tmr.runners.pytest.read_results import read_test_run
from mngr.tmr.runners.pytest.runner import PytestOptions
from mngr.tmr.runners.test_run import TestFunction, TestRun

_MAX_JOB = 60_000  # packed characters of the trials of one command, which has a size limit
_MAX_OUTPUT = 1 << 25  # bytes of all results
_KEY, _KEY_HASH = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{128}")
_SCRATCH_DIRS = ("/tmp", "/var/tmp", "/dev/shm", CLEAN_ROOM_HOME)
_START_SECONDS = 60.0  # for pytest to start, and for reading the work dir
_PROGRAMS = os.path.join(os.path.dirname(__file__), "in_clean_room")


class FileEdit(Struct):
    """A replacement of the characters from `start` to `end` in a file of the work dir."""

    path: str
    start: int
    end: int
    new: str


class Trial(Struct):
    """One short run of some tests on changed files. The commit's own files are restored after it."""

    tests: list[str]  # node ids, in the order in which they run
    files: dict[str, str | None] = {}  # texts that replace files; None removes the file
    edits: list[FileEdit] = []  # applied after `files`
    env: dict[str, str] = {}
    timeout: float
    trace: bool = False  # report the lines that are run
    stops_early: bool = False  # stop after the first failing test
    always: bool = False  # run it even when the time for all trials is used up
    script: str = ""  # a Python program to run instead of the tests, in a process without pytest


class TrialRun(Struct):
    """The observations of one trial. `run` has the outcomes of all its tests together."""

    run: TestRun
    problem: str = ""  # why mngr could not run it; nothing was observed then
    replaced: list[str] | None = None  # functions of the outcome path that were replaced at the end; None: no report
    is_restored: bool = True  # the driver restored all files that the trial changed
    reported_seconds: float = 0.0  # that the tests took, by pytest's own measure
    output: str = ""  # the end of what it printed

    def find_outcome(self, test_id: str) -> str | None:
        """Return the outcome of a test with all its parameters: the worst one, or None if nothing reported it. Skipped parameters do not count beside others."""
        return find_worst_outcome(self.run, test_id)


def find_worst_outcome(run: TestRun, test_id: str) -> str | None:
    """Return the worst outcome of a test's parameters, or None if the run does not mention it."""
    outcomes = {outcome for node_id, outcome in run.ids.items() if is_id_of_test(node_id, test_id)}
    return next((outcome for outcome in ("fail", "error", "pass", "skip") if outcome in outcomes), None)


def is_id_of_test(node_id: str, test_id: str) -> bool:
    """True when a node id is the test, or the test with parameters."""
    return node_id == test_id or node_id.startswith(f"{test_id}[")


class TrialSettings(Struct):
    """The settings of the driver for one command."""

    trials: str  # packed
    observer: str  # packed text of the observer, which each child loads
    plugins: str  # packed texts of the observer's plugins
    scratch: list[str]  # directories whose new files are removed after each trial
    budget: float  # seconds after which no further trial starts


class _ChildSettings(Struct):
    """The settings of the observer in a child."""

    seed: int | None = None
    is_suite: bool = False


class _TrialJob(Struct):
    """One trial, as the driver reads it."""

    args: list[str]
    files: dict[str, str | None]
    edits: list[list[object]]
    env: dict[str, str]
    timeout: float
    settings: _ChildSettings
    plugins: list[str]
    always: bool
    script: str


class _TrialRow(Struct):
    """One result, as the driver writes it."""

    trial: int
    problem: str
    lost: list[str]
    code: int | None = None
    timed_out: bool = False
    left: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    rows: str = ""
    output: str = ""


def run_trials(
    room: CleanRoom,
    options: PytestOptions,
    test: TestFunction,
    trials: Sequence[Trial],
    *,
    budget: float,
    seed: int | None = None,
) -> list[TrialRun | None]:
    """Run trials of a test, one after the other, and return what was seen in each.

    None stands for a trial that was not run: the `budget` seconds were used up, or the command ended early.
    Raise MngrError when the clean room fails.
    """
    results: list[TrialRun | None] = []
    deadline = budget
    batches = _split_into_batches(options, trials)
    while batches:
        batch = batches.pop(0)
        done = _run_batch(room, options, test, batch, max(0.0, deadline), seed)
        # The driver stops at a trial whose changes it cannot undo. The next command starts from the commit's files.
        stops = [number + 1 for number, trial_run in done.items() if not trial_run.is_restored]
        count = min([*stops, len(batch)])
        results += [done.get(number) for number in range(count)]
        if batch[count:]:
            batches.insert(0, batch[count:])
        deadline -= sum(trial_run.run.seconds for trial_run in done.values())
    return results


def _split_into_batches(options: PytestOptions, trials: Sequence[Trial]) -> list[list[Trial]]:
    """Return the trials in groups that fit into one command each."""
    if len(trials) < 2 or len(_pack_trials(options, trials)) <= _MAX_JOB:
        return [list(trials)] if trials else []
    middle = len(trials) // 2
    return _split_into_batches(options, trials[:middle]) + _split_into_batches(options, trials[middle:])


def _pack_trials(options: PytestOptions, trials: Sequence[Trial]) -> str:
    jobs = [
        _TrialJob(
            args=[*options.args, f"--maxfail={int(trial.stops_early)}", *trial.tests],
            files={path: None if text is None else pack_text(text) for path, text in trial.files.items()},
            edits=[[edit.path, edit.start, edit.end, edit.new] for edit in trial.edits],
            env=trial.env,
            timeout=trial.timeout,
            settings=_ChildSettings(),
            plugins=["outcome_path", *(("tracer",) if trial.trace else ())],
            always=trial.always,
            script=pack_text(trial.script) if trial.script else "",
        )
        for trial in trials
    ]
    return pack_text(json.dumps([encode(job) for job in jobs]))


def _run_batch(
    room: CleanRoom,
    options: PytestOptions,
    test: TestFunction,
    trials: Sequence[Trial],
    budget: float,
    seed: int | None,
) -> dict[int, TrialRun]:
    """Run one command, and return the result of each trial that ran, by its number."""
    plugins = {name: read_program(f"{name}.py", _PROGRAMS) for name in ("outcome_path", "tracer")}
    settings = TrialSettings(
        trials=_pack_trials(options, trials),
        observer=pack_text(read_program("observe_pytest.py", _PROGRAMS)),
        plugins=pack_text(json.dumps(plugins)),
        scratch=[] if room.isolation.startswith("none") else list(_SCRATCH_DIRS),
        budget=budget,
    )
    env = {} if seed is None else {"PYTHONHASHSEED": str(seed % 4294967296)}
    longest = max(trial.timeout for trial in trials)
    always = sum(trial.timeout for trial in trials if trial.always)
    outcome = room.run(
        [*options.pytest, "-p", "mngr_observer"],
        env=env,
        timeout=budget + longest + always + _START_SECONDS,
        observer=Observer(program=read_program("trial_driver.py", _PROGRAMS), settings=settings),
        max_output=_MAX_OUTPUT,
    )
    done: dict[int, TrialRun] = {}
    for text in _select_signed_rows(outcome):
        row = decode(_TrialRow, parse_json(text))
        if 0 <= row.trial < len(trials):
            done[row.trial] = _read_trial(room, options, test, trials[row.trial], row)
    return done


def _select_signed_rows(outcome: CommandOutcome) -> list[str]:
    """Return the rows that the driver signed. A driver that did not reach its end has none.

    A test can write to this output. But before the first test runs, it contains the hash of the driver's key, and
    the driver prints the key itself only after the last test has ended.
    """
    if outcome.is_output_cut:
        return []  # the hash may be missing
    lines = [line for line in outcome.out.split("\n") if line]
    key_hash = next((line for line in lines if _KEY_HASH.fullmatch(line)), "")
    keys = [bytes.fromhex(line) for line in lines if _KEY.fullmatch(line)]
    key = next((key for key in keys if hashlib.blake2b(key).hexdigest() == key_hash), None)
    if key is None:
        return []
    signed = [line.partition(" ") for line in lines]
    return [text for signature, _, text in signed if hashlib.blake2b(text.encode(), key=key).hexdigest() == signature]


def _read_trial(room: CleanRoom, options: PytestOptions, test: TestFunction, trial: Trial, row: _TrialRow) -> TrialRun:
    """Return a trial's result from the driver's row."""
    rows = [parsed for line in row.rows.splitlines() if (parsed := parse_row(line)) is not None]
    is_sandboxed = not room.isolation.startswith("none")
    outcome = CommandOutcome(
        code=row.code or 0,
        out=escape_control_characters(row.output),
        err="",
        seconds=row.seconds,
        cpu=row.cpu,
        timed_out=row.timed_out,
        timeout=trial.timeout,
        leftover_processes=row.left,
        observer_rows=escape_control_characters(rows),
        findings=list_violations("", row.left, 0, [row.output, rows], is_sandboxed=is_sandboxed),
    )
    run = read_test_run(test, outcome, join([*options.pytest, *options.args, *trial.tests]), room.inner_work_dir)
    return TrialRun(
        run=run.replace(isolation=room.isolation),
        problem=row.problem,
        output=row.output,
        is_restored=not row.lost,
        replaced=_find_replaced_functions(rows),
        reported_seconds=sum(parse_phase(phase).seconds for phase in select_rows(rows, "phase")),
    )


def _find_replaced_functions(rows: Sequence[ObserverRow]) -> list[str] | None:
    """Return the names in the last report about replaced functions, or None if there is none."""
    reports = select_rows(rows, "replaced")
    return [str(name) for name in as_list(reports[-1].get("names"))] if reports else None
