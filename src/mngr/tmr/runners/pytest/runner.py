"""Collects and runs tests with the project's own pytest, in the project's own environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_room import CleanRoom, CommandOutcome, Observer, ObserverRow
from mngr.tmr.cleanroom.program_sources import read_program
from mngr.tmr.runners.protocol import DEFAULT_RUN_OPTIONS
from mngr.tmr.runners.pytest.collect import read_collection
from mngr.tmr.runners.pytest.in_clean_room.replaced_files import pack_text
from mngr.tmr.runners.pytest.read_results import read_test_run
from mngr.tmr.runners.pytest.read_suite import read_suite_run
from mngr.tmr.runners.test_run import (
    TEST_TIMEOUT,
    CollectedTests,
    RunOptions,
    SuiteRequest,
    SuiteRun,
    TestFunction,
    TestRun,
)

_PROGRAMS = os.path.join(os.path.dirname(__file__), "in_clean_room")
_OBSERVER_ARGS = ("-p", "mngr_observer")
_KEEP_GOING_ARGS = ("--continue-on-collection-errors", "--maxfail=0")
_COLLECT_TIMEOUT = 600.0


class PytestOptions(Struct):
    """How the project's tests are run."""

    pytest: list[str]  # the command
    args: list[str] = []
    timeout: float = TEST_TIMEOUT  # seconds for one run of a test


class ObserverSettings(Struct):
    """The settings of the observer for one run of pytest."""

    seed: int | None = None  # of the plugin that shuffles tests
    resolve: bool = False  # report the files of packages and programs
    program: str | None = None  # a program to resolve in addition to the installed ones
    selected: str | None = None  # the packed ids of the tests to run, one per line; None: all
    shuffle: int | None = None  # the seed of a random order
    is_suite: bool = False  # many tests run, so describe each failure shortly
    files: dict[str, str | None] = {}  # packed texts that replace files of the commit; None removes the file
    plugins: dict[str, str] = {}  # mngr's other plugins, by name
    plugin_settings: Struct | None = None  # for one of these plugins


class PytestRunner:
    """Runs the tests of a project with pytest."""

    def __init__(self, options: PytestOptions) -> None:
        self.options = options

    def command(self, test: str) -> list[str]:
        """Return the command with which a person runs a test, without mngr's own arguments."""
        return [*self.options.pytest, *self.options.args, test]

    def collect(self, room: CleanRoom, paths: Sequence[str] = (), *, program: str | None = None) -> CollectedTests:
        """Collect the tests. `program` is the project's main command, if it has one."""
        args = ["--collect-only", "-q", *self.options.args, *paths]
        settings = ObserverSettings(resolve=True, program=program, plugins=_read_plugins("collected_tests"))
        outcome = self._run(room, [*_KEEP_GOING_ARGS, *args], settings, _COLLECT_TIMEOUT)
        return read_collection(outcome, [*self.options.pytest, *args], room.inner_work_dir)

    def run_test(
        self,
        room: CleanRoom,
        test: TestFunction,
        options: RunOptions = DEFAULT_RUN_OPTIONS,
        artifacts_dir: str | None = None,
    ) -> TestRun:
        """Run a test once in its own process, and save its artifacts if there is a directory for them."""
        env = {} if options.seed is None else {"PYTHONHASHSEED": str(options.seed % 4294967296)}
        args = [*self.options.args, test.id]
        outcome = self._run(room, args, _build_settings(options), self.options.timeout, env)
        run = self._read_run(room, test, outcome)
        if artifacts_dir is not None:
            _pull_artifacts(room, run, artifacts_dir)
        return run

    def run_suite(
        self, room: CleanRoom, request: SuiteRequest, get_artifacts_dir: Callable[[str], str | None] | None = None
    ) -> SuiteRun:
        """Run several tests in one process, as the project itself does."""
        args = [*self.options.args, *_KEEP_GOING_ARGS, *request.targets]
        env = {} if request.seed is None else {"PYTHONHASHSEED": str(request.seed)}
        selected = None if request.tests is None else pack_text("\n".join(test.id for test in request.tests))
        settings = ObserverSettings(
            seed=request.seed,
            selected=selected,
            shuffle=request.shuffle,
            is_suite=True,
            plugins=_read_plugins("selected_tests", *(("tracer", "suite_lines") if request.trace else ())),
        )
        outcome = self._run(room, args, settings, request.timeout, env, request.stall)
        suite_run = read_suite_run(outcome, request.tests or [], self.command, room.inner_work_dir)
        for run in suite_run.runs.values():
            artifacts_dir = get_artifacts_dir(run.test) if get_artifacts_dir is not None and run.artifacts else None
            if artifacts_dir is not None:
                _pull_artifacts(room, run, artifacts_dir)
        whole = suite_run.whole.replace(isolation=room.isolation)
        runs = {
            test: run.replace(isolation=room.isolation, imported_from=run.imported_from or whole.imported_from)
            for test, run in suite_run.runs.items()
        }
        return suite_run.replace(whole=whole, runs=runs)

    def run_with_plugin(
        self, room: CleanRoom, test: TestFunction, plugin: str, settings: Struct, timeout: float
    ) -> tuple[TestRun, list[ObserverRow]]:
        """Run a test with another plugin of mngr, given as text. Return the run and the observer's rows.

        Only experiments that know pytest use this; it is no part of the protocol.
        """
        observer = ObserverSettings(plugins={"mngr_audit": plugin}, plugin_settings=settings)
        args = [*self.options.args, test.id]
        outcome = self._run(room, args, observer, timeout, {"PYTHONDONTWRITEBYTECODE": "1"})
        return self._read_run(room, test, outcome), outcome.observer_rows

    def _run(
        self,
        room: CleanRoom,
        args: list[str],
        settings: ObserverSettings,
        timeout: float | None,
        env: dict[str, str] | None = None,
        stall: float | None = None,
    ) -> CommandOutcome:
        observer = Observer(program=read_program("observe_pytest.py", _PROGRAMS), settings=settings)
        argv = [*self.options.pytest, *_OBSERVER_ARGS, *args]
        return room.run(argv, env=env, timeout=timeout, observer=observer, stall=stall)

    def _read_run(self, room: CleanRoom, test: TestFunction, outcome: CommandOutcome) -> TestRun:
        run = read_test_run(test, outcome, join(self.command(test.id)), room.inner_work_dir)
        return run.replace(isolation=room.isolation)


def _read_plugins(*names: str) -> dict[str, str]:
    return {name: read_program(f"{name}.py", _PROGRAMS) for name in names}


def _pull_artifacts(room: CleanRoom, run: TestRun, artifacts_dir: str) -> None:
    for artifact in run.artifacts:
        os.makedirs(artifacts_dir, exist_ok=True)
        room.pull(artifact, os.path.join(artifacts_dir, os.path.basename(artifact)))


def _build_settings(options: RunOptions) -> ObserverSettings:
    """Return the settings in the form that the observer reads."""
    files = options.files or {}
    plugins = (("replaced_files", files), ("tracer", options.trace), ("imported_files", options.loaded))
    return ObserverSettings(
        seed=options.seed,
        resolve=options.resolve,
        program=options.program,
        files={path: None if text is None else pack_text(text) for path, text in files.items()},
        plugins=_read_plugins(*(name for name, is_wanted in plugins if is_wanted)),
    )
