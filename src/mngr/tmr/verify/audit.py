"""Whether a test would notice: its program is replaced by one that does nothing, that prints its usage, or that lacks an option.

The first run is as it is, and notes every call of the program. Then, by mode:
  nop    every call in the test itself exits 0 and prints nothing
  help   every call prints the program's usage and exits 0
  each   one command at a time does nothing, wherever the test gives it
  drop   one option of one command at a time is left out
A test that passes with nop or help is vacuous. A command or an option that nobody misses is unguarded, which is a note: it may be that
it only sets the scene. With each and drop only the commands that the test is about are tried: those that it cites, else its own.
"""

from __future__ import annotations

import functools
import math
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any, Self

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, read_program
from mngr.tmr.cleanroom.test_run import (
    PROBE_ARGS,
    TEST_TIMEOUT,
    TestFunction,
    TestRun,
    make_paths_relative,
    read_test_run,
)
from mngr.tmr.finding import Finding
from mngr.tmr.verify import command_options
from mngr.tutorial.citations import parse_tests
from mngr.tutorial.coverage import shell_words

_HERE = os.path.dirname(__file__)

MODES = ("nop", "help", "each", "drop")
MAX_RUNS = 40  # runs of one test
NO_TIME_REASON = "there was no time for it"
_SLOWER, _MORE = (
    3.0,
    10.0,
)  # a run with a stub ends after so many times the first run's time, and so many seconds
_MAX_COMMAND = 100  # characters of a command in a sentence
_USAGE_SCRIPT = 'place=$(mktemp -d) && cd "$place" && HOME=$place "$@" </dev/null 2>&1; rm -rf "$place"'


class ProgramCall(Struct):
    """One call of the program: by whom, from which line, with which words."""

    id: str  # the node id
    phase: str  # setup | call | teardown
    path: str
    line: int
    args: list[str]
    shape: list[str]  # the words without what varies from run to run: the same command, wherever it is given
    real: list[str]  # what ran
    altered: bool


class AuditGap(Struct):
    """Something that a test does not notice."""

    rule: str  # vacuous | unguarded-command | unguarded-option
    test: str
    mode: str
    path: str
    line: int
    command: str = ""
    option: str = ""
    what: str

    @property
    def finding(self) -> Finding:
        """For a receipt."""
        level = "refuse" if self.rule == "vacuous" else "note"
        return Finding(rule=self.rule, level=level, path=self.path, line=self.line, what=self.what, new=self.command)


class AuditResult(Struct):
    """What became of one test."""

    test: str
    outcome: str  # guarded | unguarded | vacuous | no-command | failing | unclear | left
    why: str = ""
    holes: list[AuditGap] = []
    modes: list[str] = []  # that were tried
    runs: int = 0
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As it stands in the cache and in JSON."""
        return {**super().to_dict(), "holes": [hole.to_dict() for hole in self.holes]}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` gave."""
        return cls(**{**data, "holes": [AuditGap(**hole) for hole in data["holes"]]})


def list_audit_findings(
    room: CleanRoom,
    pytest: Sequence[str],
    test: TestFunction,
    *,
    program: str,
    args: Sequence[str] = (),
    modes: Sequence[str] = MODES,
    timeout: float = TEST_TIMEOUT,
) -> list[Finding]:
    """What a test does not notice; raises MngrError when the room, not the test, is the trouble."""
    found = audit_test(room, pytest, test, program=program, args=args, modes=modes, timeout=timeout)
    return [hole.finding for hole in found.holes]


def audit_test(
    room: CleanRoom,
    pytest: Sequence[str],
    test: TestFunction,
    *,
    program: str,
    args: Sequence[str] = (),
    modes: Sequence[str] = MODES,
    timeout: float = TEST_TIMEOUT,
    usages: dict[tuple[str, ...], str] | None = None,
    left: Callable[[], float] = lambda: math.inf,
    first: Callable[[TestRun], None] | None = None,
) -> AuditResult:
    """The same with all that was seen. `first` is told of the run that it begins with, if that passes. `usages` are kept from test to test; `left` says how many seconds there are still."""
    bench = _StubRunner(
        room, [*pytest, *PROBE_ARGS, *args], test, program, timeout, {} if usages is None else usages, left
    )
    try:
        outcome, why, holes = _run_audit(bench, test, program, modes, first)
    except _AuditBudgetExhausted as error:
        is_vacuous = any(hole.rule == "vacuous" for hole in bench.holes)
        outcome, why, holes, modes = ("vacuous" if is_vacuous else "left"), str(error), bench.holes, ()
    return AuditResult(
        test=test.id, outcome=outcome, why=why, holes=holes, modes=list(modes), runs=bench.runs, seconds=bench.seconds
    )  # fmt: skip


class _AuditBudgetExhausted(Exception):
    """There is no time, or no run, left."""


class _StubRunner:
    """Runs one test with stubs, and asks what its program says of itself."""

    def __init__(
        self,
        room: CleanRoom,
        pytest: list[str],
        test: TestFunction,
        program: str,
        timeout: float,
        usages: dict[tuple[str, ...], str],
        left: Callable[[], float],
    ) -> None:
        self.room, self.words, self.holes = room, shlex.split(program), list[AuditGap]()
        self._pytest, self._test, self._timeout, self._left = pytest, test, timeout, left
        self._usages = usages
        self.runs, self.seconds = 0, 0.0

    def run(self, mode: str, **plan: Any) -> tuple[TestRun, list[ProgramCall]]:
        timeout = min(self._timeout, self._left())
        if timeout <= 0 or self.runs >= MAX_RUNS:
            raise _AuditBudgetExhausted(NO_TIME_REASON if timeout <= 0 else f"it was run {MAX_RUNS} times")
        facts = {
            "plugins": {"mngr_audit": read_program("stub_plugin.py", _HERE)},
            "audit": {"words": self.words, "mode": mode, "stub": read_program("stub.py", _HERE), **plan},
        }
        argv = [*self._pytest, self._test.id]
        ran = self.room.run(argv, env={"PYTHONDONTWRITEBYTECODE": "1"}, timeout=timeout, probe=facts)
        self.runs, self.seconds = self.runs + 1, self.seconds + ran.seconds
        if ran.timed_out and timeout < self._timeout:
            raise _AuditBudgetExhausted(NO_TIME_REASON)
        if mode == "record":
            self._timeout = min(self._timeout, _SLOWER * ran.seconds + _MORE)
        calls = [ProgramCall(**_select_fields(row)) for row in ran.probe_rows if row["row"] == "call"]
        return read_test_run(self._test, ran, join(argv), self.room.inner_work_dir), calls

    def list_unnoticed_calls(self, mode: str, **plan: Any) -> list[ProgramCall]:
        """The altered calls that made no difference to who made them."""
        run, calls = self.run(mode, **plan)
        return [call for call in calls if call.altered and run.ids.get(call.id) == "pass"]

    def can_take_value(self, call: ProgramCall, flag: str) -> bool | None:
        """What the helps of a command and of the whole program say of an option."""
        names = command_options.list_command_words(call.args)[:2]
        for length in range(len(names), -1, -1):
            takes = command_options.can_take_value(flag, self._read_usage(call.real, tuple(names[:length])))
            if takes is not None:
                return takes
        return None

    def _read_usage(self, real: list[str], names: tuple[str, ...]) -> str:
        if names not in self._usages:
            ran = self.room.run(["sh", "-c", _USAGE_SCRIPT, "ask", *real, *names, "--help"], timeout=20.0, clean=False)
            self._usages[names] = ran.out
        return self._usages[names]


def _select_fields(row: dict[str, Any]) -> dict[str, Any]:
    return {"id": "", "phase": "", "path": "", "line": 0, **{key: row[key] for key in row if key != "row"}}


def _run_audit(
    bench: _StubRunner,
    test: TestFunction,
    program: str,
    modes: Sequence[str],
    first: Callable[[TestRun], None] | None,
) -> tuple[str, str, list[AuditGap]]:
    """Its outcome, why, and what it does not notice."""
    run, calls = bench.run("record")
    if run.outcome != "pass":
        plain, _ = bench.run("plain")
        return ("unclear" if plain.outcome == "pass" else "failing"), (plain.why or run.why), []
    if first is not None:
        first(run)
    said = list_cited_commands(bench.room, test, bench.words)
    own = [call for call in calls if call.phase == "call"]
    before = [call for call in calls if call.phase == "setup"]
    holes = bench.holes
    if not own and said and not any(call.args in said for call in before):
        what = f"{test.name} cites {_shorten_command(bench, program, said[0])} and never runs it"
        holes.append(AuditGap(rule="vacuous", test=test.id, mode="nop", path=test.path, line=test.line or 0, what=what))
        return "vacuous", "", holes
    calls = own or before
    if not calls:
        return "no-command", "", []
    about, is_cited = _select_calls(calls, said, test)
    for mode, how in (("nop", "does and prints nothing"), ("help", "prints nothing but its usage")):
        if mode in modes and (left := _find_unnoticed_call(bench, mode, calls)):
            what = f"{left.id.rpartition('::')[2]} passes when {program} {how}"
            holes.append(_make_gap(bench, test, program, "vacuous", mode, about[0], what))
    unguarded: list[list[str]] = []
    if "each" in modes and not holes and any(call.shape != calls[0].shape for call in calls):
        unguarded = _audit_each_command(bench, test, program, about)
        if is_cited and len(unguarded) == len(about):
            what = f"{test.name} passes without any of the commands that it cites"
            holes.append(_make_gap(bench, test, program, "vacuous", "each", about[0], what))
    if "drop" in modes:
        _audit_options(bench, test, program, [call for call in about if call.shape not in unguarded])
    rules = {hole.rule for hole in holes}
    return ("vacuous" if "vacuous" in rules else "unguarded" if rules else "guarded"), "", holes


def _find_unnoticed_call(bench: _StubRunner, mode: str, calls: list[ProgramCall]) -> ProgramCall | None:
    """A call that nobody missed; with help, one that did not ask for the usage anyway."""

    def counts(call: ProgramCall) -> bool:
        return mode == "nop" or not command_options.is_usage_request(call.args)

    if not any(map(counts, calls)):
        return None
    return next(filter(counts, bench.list_unnoticed_calls(mode, phase=calls[0].phase)), None)


def _audit_each_command(
    bench: _StubRunner, test: TestFunction, program: str, about: list[ProgramCall]
) -> list[list[str]]:
    found = []
    for call in about:
        if left := bench.list_unnoticed_calls("each", phase=call.phase, shape=call.shape):
            found.append(call.shape)
            what = f"{test.name} passes without this: {_shorten_command(bench, program, call.args)}"
            bench.holes.append(_make_gap(bench, test, program, "unguarded-command", "each", left[0], what))
    return found


def _audit_options(bench: _StubRunner, test: TestFunction, program: str, about: list[ProgramCall]) -> None:
    for call in about:
        for flag, cuts in command_options.list_options(call.args, functools.partial(bench.can_take_value, call)):
            tried = (bench.list_unnoticed_calls("drop", phase=call.phase, shape=call.shape, cut=cut) for cut in cuts)
            if left := next(filter(None, tried), None):
                what = f"{test.name} passes without {flag}: {_shorten_command(bench, program, call.args)}"
                hole = _make_gap(bench, test, program, "unguarded-option", "drop", left[0], what)
                bench.holes.append(hole.replace(option=flag))


def _select_calls(
    calls: list[ProgramCall], said: list[list[str]], test: TestFunction
) -> tuple[list[ProgramCall], bool]:
    """The commands that a test is about, each once: those that it cites, else like those, else its own; whether it cites them."""
    alike = [command_options.list_command_words(words)[:1] for words in said]
    choices = (
        [call for call in calls if call.args in said],
        [call for call in calls if command_options.list_command_words(call.args)[:1] in alike],
        [call for call in calls if call.path == test.path],
        calls,
    )
    at = next(at for at, choice in enumerate(choices) if choice)
    first: dict[str, ProgramCall] = {}
    for call in choices[at]:
        first.setdefault(repr(call.shape), call)
    return list(first.values()), at == 0


def list_cited_commands(room: CleanRoom, test: TestFunction, words: list[str]) -> list[list[str]]:
    """The words of each call of the program in the blocks that a test cites."""
    found: list[list[str]] = []
    for citation in parse_tests(room.read(test.path), test.path).citations:
        if citation.test == test.id:
            rows = [row for row in citation.text.split("\n") if not row.lstrip().startswith("#")]
            found += shell_words.list_calls("\n".join(rows), words)
    return found


def _shorten_command(bench: _StubRunner, program: str, args: Sequence[str]) -> str:
    text = _format_command(bench, program, args)
    return f"`{text if len(text) <= _MAX_COMMAND else text[: _MAX_COMMAND - 1] + '…'}`"


def _make_gap(
    bench: _StubRunner, test: TestFunction, program: str, rule: str, mode: str, call: ProgramCall, what: str
) -> AuditGap:
    return AuditGap(
        rule=rule, test=test.id, mode=mode, path=call.path or test.path, line=call.line or test.line or 0,
        command=_format_command(bench, program, call.args), what=what,
    )  # fmt: skip


def _format_command(bench: _StubRunner, program: str, args: Sequence[str]) -> str:
    """A command as a person writes it."""
    text: str = make_paths_relative(f"{program} {join(args)}".strip(), f"{bench.room.inner_work_dir}/")
    return text
