"""Audits whether a test would notice a broken program: one that does nothing, prints its usage or ignores an option.

The first run is unchanged and records every call of the program. Then, by mode:
  nop    every call in the test itself exits 0 and prints nothing
  help   every call prints the program's usage and exits 0
  each   one command at a time does nothing, wherever the test calls it
  drop   one option of one command at a time is removed
A test that passes with nop or help is vacuous. A command or option that the test does not miss is unguarded. That is
only a note, because it may be a preparation. The modes each and drop try only the commands that the test is about:
those that it cites, else its own.
"""

from __future__ import annotations

import functools
import math
import os
import shlex
import time
from collections.abc import Callable, Collection, Sequence

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.base.untrusted_json import as_list, get_int, get_text
from mngr.tmr.cleanroom.clean_room import CleanRoom, ObserverRow
from mngr.tmr.cleanroom.program_sources import read_program
from mngr.tmr.finding import Finding
from mngr.tmr.runners.pytest.observer_report import select_rows
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import TestFunction, TestRun
from mngr.tmr.verify.audit import command_options
from mngr.tutorial.citations import parse_tests
from mngr.tutorial.coverage import shell_words

_HERE = os.path.dirname(__file__)

MODES = ("nop", "help", "each", "drop")
MAX_RUNS = 40  # runs of one test at most
NO_TIME_REASON = "the time limit was reached before its audit"
# A run with a stub may take _SLOWER times as long as the first run, and _MORE seconds.
_SLOWER, _MORE = 3.0, 10.0
_MAX_COMMAND = 100  # characters of a command in a sentence
_USAGE_SCRIPT = 'place=$(mktemp -d) && cd "$place" && HOME=$place "$@" </dev/null 2>&1; rm -rf "$place"'


class ProgramCall(Struct):
    """One call of the program: the test, the line that made it and the arguments."""

    id: str  # the node id
    phase: str  # setup | call | teardown
    path: str
    line: int
    args: list[str]
    normalized_args: list[str]  # without parts that vary between runs, so that they identify the command
    real_command: list[str]
    altered: bool


class StubPlan(Struct):
    """What the stubs do in one run of a test. `stub_plugin.py` and `stub_program.py` read it as JSON."""

    words: list[str]  # the program's command
    mode: str  # plain: no stub | record: only report the calls | nop | help | each | drop
    stub: str  # the text of stub_program.py
    phase: str = ""  # the phase in which calls are altered: setup | call | teardown
    normalized_args: list[str] | None = None  # of the one command that is altered, for each and drop
    cut: tuple[int, int] | None = None  # the words to remove: the first and the one after the last


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
        """The gap as a finding for a receipt."""
        level = "refuse" if self.rule == "vacuous" else "note"
        return Finding(rule=self.rule, level=level, path=self.path, line=self.line, what=self.what, new=self.command)


class AuditResult(Struct):
    """The result of auditing one test."""

    test: str
    outcome: str  # guarded | unguarded | vacuous | no-command | failing | unclear | left
    why: str = ""
    holes: list[AuditGap] = []
    modes: list[str] = []  # the modes that were tried
    runs: int = 0
    seconds: float = 0.0


class AuditSession:
    """The parts that the audits of several tests share: the time limit, and the help texts read so far."""

    def __init__(self, time_limit: float | None = None) -> None:
        self._deadline = math.inf if time_limit is None else time.monotonic() + time_limit
        self.usages: dict[tuple[str, ...], str] = {}  # by command

    def seconds_left(self) -> float:
        """Return the remaining time, which is infinite without a limit."""
        return self._deadline - time.monotonic()


def audit_test(
    clean_room: CleanRoom,
    options: PytestOptions,
    test: TestFunction,
    *,
    program: str,
    modes: Sequence[str] = MODES,
    session: AuditSession | None = None,
    on_first_run: Callable[[TestRun], None] | None = None,
) -> AuditResult:
    """Audit a test and return the full result. `on_first_run` gets the unchanged first run if it passes.

    Raise MngrError when the clean room fails, not the test.
    """
    runner = _StubRunner(clean_room, options, test, program, session or AuditSession())
    try:
        outcome, why, holes = _run_audit(runner, test, program, modes, on_first_run)
    except _AuditBudgetExhausted as error:
        is_vacuous = any(hole.rule == "vacuous" for hole in runner.holes)
        outcome = "vacuous" if is_vacuous else "left"
        why = str(error)
        holes = runner.holes
        modes = ()
    return AuditResult(
        test=test.id, outcome=outcome, why=why, holes=holes, modes=list(modes), runs=runner.runs, seconds=runner.seconds
    )


class _AuditBudgetExhausted(Exception):
    """The time or the number of runs is used up."""


class _StubRunner:
    """Runs one test with stubs of its program, and reads the program's help texts."""

    def __init__(
        self,
        clean_room: CleanRoom,
        options: PytestOptions,
        test: TestFunction,
        program: str,
        session: AuditSession,
    ) -> None:
        self.room, self.words, self.holes = clean_room, shlex.split(program), list[AuditGap]()
        self._runner = PytestRunner(options)
        self._test, self._timeout, self._session = test, options.timeout, session
        self.runs, self.seconds = 0, 0.0

    def run(
        self,
        mode: str,
        phase: str = "",
        normalized_args: list[str] | None = None,
        cut: command_options.WordRange | None = None,
    ) -> tuple[TestRun, list[ProgramCall]]:
        """Run the test in a mode, as StubPlan describes it. Return its run and the calls of the program."""
        timeout = min(self._timeout, self._session.seconds_left())
        if timeout <= 0 or self.runs >= MAX_RUNS:
            raise _AuditBudgetExhausted(
                NO_TIME_REASON if timeout <= 0 else f"mngr has run it {MAX_RUNS} times, which is the limit"
            )
        plan = StubPlan(
            words=self.words,
            mode=mode,
            stub=read_program("stub_program.py", _HERE),
            phase=phase,
            normalized_args=normalized_args,
            cut=cut,
        )
        plugin = read_program("stub_plugin.py", _HERE)
        run, rows = self._runner.run_with_plugin(self.room, self._test, plugin, plan, timeout)
        self.runs, self.seconds = self.runs + 1, self.seconds + run.seconds
        if run.outcome == "timeout" and timeout < self._timeout:
            raise _AuditBudgetExhausted(NO_TIME_REASON)
        if mode == "record":
            self._timeout = min(self._timeout, _SLOWER * run.seconds + _MORE)
        return run, [_parse_call(row) for row in select_rows(rows, "call")]

    def list_unnoticed_calls(
        self,
        mode: str,
        phase: str,
        normalized_args: list[str] | None = None,
        cut: command_options.WordRange | None = None,
    ) -> list[ProgramCall]:
        """Return the altered calls whose test still passed."""
        run, calls = self.run(mode, phase, normalized_args, cut)
        return [call for call in calls if call.altered and run.ids.get(call.id) == "pass"]

    def can_take_value(self, call: ProgramCall, flag: str) -> bool | None:
        """Return what the help texts of the command and of the whole program say about an option."""
        names = command_options.list_command_words(call.args)[:2]
        for length in range(len(names), -1, -1):
            takes = command_options.can_take_value(flag, self._read_usage(call.real_command, tuple(names[:length])))
            if takes is not None:
                return takes
        return None

    def _read_usage(self, real: list[str], names: tuple[str, ...]) -> str:
        """Return the help text of a command, from the cache if possible."""
        usages = self._session.usages
        if names not in usages:
            outcome = self.room.run(
                ["sh", "-c", _USAGE_SCRIPT, "ask", *real, *names, "--help"], timeout=20.0, clean=False
            )
            usages[names] = outcome.out
        return usages[names]


def _parse_call(row: ObserverRow) -> ProgramCall:
    return ProgramCall(
        id=get_text(row, "id"),
        phase=get_text(row, "phase"),
        path=get_text(row, "path"),
        line=get_int(row, "line"),
        args=_parse_words(row.get("args")),
        normalized_args=_parse_words(row.get("normalized_args")),
        real_command=_parse_words(row.get("real_command")),
        altered=row.get("altered") is True,
    )


def _parse_words(value: object) -> list[str]:
    return [str(word) for word in as_list(value)]


def _run_audit(
    runner: _StubRunner,
    test: TestFunction,
    program: str,
    modes: Sequence[str],
    on_first_run: Callable[[TestRun], None] | None,
) -> tuple[str, str, list[AuditGap]]:
    """Return the outcome, the reason and the gaps of a test."""
    run, calls = runner.run("record")
    if run.outcome != "pass":
        plain_run, _ = runner.run("plain")
        return ("unclear" if plain_run.outcome == "pass" else "failing"), (plain_run.why or run.why), []
    if on_first_run is not None:
        on_first_run(run)
    cited = list_cited_commands(runner.room, test, runner.words)
    test_calls = [call for call in calls if call.phase == "call"]
    setup_calls = [call for call in calls if call.phase == "setup"]
    holes = runner.holes
    if not test_calls and cited and not any(call.args in cited for call in setup_calls):
        sentence = f"{test.name} cites {_shorten_command(runner, program, cited[0])} but never runs it"
        holes.append(
            AuditGap(rule="vacuous", test=test.id, mode="nop", path=test.path, line=test.line or 0, what=sentence)
        )
        return "vacuous", "", holes
    calls = test_calls or setup_calls
    if not calls:
        return "no-command", "", []
    relevant, is_cited = _select_calls(calls, cited, test)
    for mode, behaviour in (("nop", "does nothing and prints nothing"), ("help", "prints only its usage")):
        if mode in modes and (unnoticed := _find_unnoticed_call(runner, mode, calls)):
            sentence = f"{unnoticed.id.rpartition('::')[2]} still passes when {program} {behaviour}"
            holes.append(_make_gap(runner, test, program, "vacuous", mode, relevant[0], sentence))
    unguarded: list[list[str]] = []
    if "each" in modes and not holes and any(call.normalized_args != calls[0].normalized_args for call in calls):
        unguarded = _audit_each_command(runner, test, program, relevant)
        if is_cited and len(unguarded) == len(relevant):
            sentence = f"{test.name} still passes without any of the commands that it cites"
            holes.append(_make_gap(runner, test, program, "vacuous", "each", relevant[0], sentence))
    if "drop" in modes:
        _audit_options(runner, test, program, [call for call in relevant if call.normalized_args not in unguarded])
    return get_outcome_of_gaps({hole.rule for hole in holes}), "", holes


def get_outcome_of_gaps(rules: Collection[str]) -> str:
    """Return the outcome of an audit that found gaps by these rules."""
    if "vacuous" in rules:
        return "vacuous"
    return "unguarded" if rules else "guarded"


def _find_unnoticed_call(runner: _StubRunner, mode: str, calls: list[ProgramCall]) -> ProgramCall | None:
    """Return a call whose change went unnoticed. In mode help, calls that asked for the usage anyway do not count."""

    def counts(call: ProgramCall) -> bool:
        return mode == "nop" or not command_options.is_usage_request(call.args)

    if not any(map(counts, calls)):
        return None
    return next(filter(counts, runner.list_unnoticed_calls(mode, phase=calls[0].phase)), None)


def _audit_each_command(
    runner: _StubRunner, test: TestFunction, program: str, relevant: list[ProgramCall]
) -> list[list[str]]:
    """Replace one command at a time. Add a gap for each unnoticed one and return their normalized arguments."""
    unguarded = []
    for call in relevant:
        if unnoticed := runner.list_unnoticed_calls("each", phase=call.phase, normalized_args=call.normalized_args):
            unguarded.append(call.normalized_args)
            sentence = f"{test.name} still passes without this command: {_shorten_command(runner, program, call.args)}"
            runner.holes.append(_make_gap(runner, test, program, "unguarded-command", "each", unnoticed[0], sentence))
    return unguarded


def _audit_options(runner: _StubRunner, test: TestFunction, program: str, relevant: list[ProgramCall]) -> None:
    """Remove one option at a time, and add a gap for each unnoticed one."""
    for call in relevant:
        for flag, cuts in command_options.propose_option_removals(
            call.args, functools.partial(runner.can_take_value, call)
        ):
            attempts = (
                runner.list_unnoticed_calls("drop", phase=call.phase, normalized_args=call.normalized_args, cut=cut)
                for cut in cuts
            )
            if unnoticed := next(filter(None, attempts), None):
                sentence = f"{test.name} still passes without the option {flag}: {_shorten_command(runner, program, call.args)}"
                hole = _make_gap(runner, test, program, "unguarded-option", "drop", unnoticed[0], sentence)
                runner.holes.append(hole.replace(option=flag))


def _select_calls(
    calls: list[ProgramCall], cited: list[list[str]], test: TestFunction
) -> tuple[list[ProgramCall], bool]:
    """Return the commands that a test is about, each once, and True if the test cites them.

    These are the cited commands, else similar ones, else those in the test's own file, else all.
    """
    cited_names = [command_options.list_command_words(words)[:1] for words in cited]
    choices = (
        [call for call in calls if call.args in cited],
        [call for call in calls if command_options.list_command_words(call.args)[:1] in cited_names],
        [call for call in calls if call.path == test.path],
        calls,
    )
    index = next(index for index, choice in enumerate(choices) if choice)
    by_args: dict[str, ProgramCall] = {}
    for call in choices[index]:
        by_args.setdefault(repr(call.normalized_args), call)
    return list(by_args.values()), index == 0


def list_cited_commands(clean_room: CleanRoom, test: TestFunction, words: list[str]) -> list[list[str]]:
    """Return the arguments of each call of the program in the blocks that a test cites."""
    commands: list[list[str]] = []
    for citation in parse_tests(clean_room.read(test.path), test.path).citations:
        if citation.test == test.id:
            rows = [row for row in citation.text.split("\n") if not row.lstrip().startswith("#")]
            commands += shell_words.list_calls("\n".join(rows), words)
    return commands


def _shorten_command(runner: _StubRunner, program: str, args: Sequence[str]) -> str:
    text = _format_command(runner, program, args)
    return f"`{text if len(text) <= _MAX_COMMAND else text[: _MAX_COMMAND - 1] + '…'}`"


def _make_gap(
    runner: _StubRunner, test: TestFunction, program: str, rule: str, mode: str, call: ProgramCall, sentence: str
) -> AuditGap:
    return AuditGap(
        rule=rule,
        test=test.id,
        mode=mode,
        path=call.path or test.path,
        line=call.line or test.line or 0,
        command=_format_command(runner, program, call.args),
        what=sentence,
    )


def _format_command(runner: _StubRunner, program: str, args: Sequence[str]) -> str:
    """Return a command as a person writes it."""
    return f"{program} {join(args)}".strip().replace(f"{runner.room.inner_work_dir}/", "")
