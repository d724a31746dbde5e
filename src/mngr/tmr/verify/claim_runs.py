"""Runs tests at a claimed commit.

Cached runs are not repeated, and mngr takes a clean room from the pool for the first run that is not cached.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from types import TracebackType

from mngr.host import git
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.replaceable_room import ReplaceableRoom
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.choose_runner import choose_runner
from mngr.tmr.runners.pytest.trials import Trial, TrialRun, run_trials
from mngr.tmr.runners.test_run import RunOptions, TestFunction, TestRun
from mngr.tmr.verify.experiments.run_experiments import ExperimentReport
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

_RULES_VERSION = 2  # increased when the same run may be judged differently


class ClaimRunner:
    """Runs tests at the claimed commit in one clean room, which it takes for the first run that is not cached."""

    def __init__(
        self,
        clean_rooms: CleanRoomPool,
        request: VerifyRequest,
        options: VerifyOptions,
        *,
        cache: ResultCache | None,
        artifacts_dir: str | None,
        on_run: Callable[[TestFunction, TestRun], None] | None,
    ) -> None:
        self.repo, self.cache, self.keep = request.source or clean_rooms.repo, cache, artifacts_dir
        self._rooms = clean_rooms
        self._request = request
        self._options = options
        self._on_run = on_run
        self._runner = choose_runner(options)
        object_ids = git.run_checked(
            clean_rooms.fleet.context.local_host,
            self.repo,
            "rev-parse",
            f"{request.commit}^{{commit}}",
            f"{request.commit}^{{tree}}",
            git_command=git.SAFE_GIT,
        )
        self.commit, self.tree = object_ids.split("\n")
        self._room = ReplaceableRoom(clean_rooms, self.commit, request.source)

    def run_all(self, *, trace: bool) -> tuple[list[TestRun], list[TestRun]]:
        """Run the test k times, and each affected test once. The seed decides the order."""
        request, options = self._request, self._options
        order = [request.test] * max(1, options.runs) + [
            test for test in request.affected_tests if test.id != request.test.id
        ]
        random.Random(options.seed).shuffle(order)
        test_runs: list[TestRun] = []
        affected_runs: list[TestRun] = []
        for number, test in enumerate(order):
            is_first_run = test.id == request.test.id and not test_runs
            run = self.run_test(test, number, resolve=number == 0, trace=trace and is_first_run)
            (test_runs if test.id == request.test.id else affected_runs).append(run)
        return test_runs, affected_runs

    def run_test(
        self,
        test: TestFunction,
        number: int,
        *,
        files: dict[str, str | None] | None = None,
        resolve: bool = False,
        trace: bool = False,
    ) -> TestRun:
        """Run a test once. `files` replaces files of the commit, and `trace` records the executed lines."""
        options = self._options
        run_options = RunOptions(
            seed=options.seed + number, files=files, resolve=resolve, program=options.program, trace=trace
        )
        key = [
            _RULES_VERSION,
            self.tree,
            self._runner.command(test.id),
            run_options.seed,
            files,
            resolve,
            trace,
            self._rooms.cache_key,
        ]
        run = self.cache.find_struct(key, TestRun) if self.cache is not None else None
        if run is None:
            run = self._run_uncached(test, run_options)
            if self.cache is not None:
                self.cache.put(key, run)
        if self._on_run is not None and files is None:
            self._on_run(test, run)
        return run

    def find_or_run_experiments(self, run: Callable[[], ExperimentReport]) -> ExperimentReport:
        """Return the cached report of the experiments with exactly this claim, or run them now."""
        if self.cache is None:
            return run()
        options, test = self._options, self._request.test
        key = [
            "experiments",
            _RULES_VERSION,
            [self.commit, self._request.base],
            [self._runner.command(test.id), test.ids],
            [options.level, options.seed, options.timeout],
            self._rooms.cache_key,
        ]
        report = self.cache.find_struct(key, ExperimentReport)
        if report is None:
            report = run()
            self.cache.put(key, report)
        return report

    def collect(self, paths: Sequence[str]) -> list[TestFunction]:
        """Return the tests of these files at the claimed commit."""
        program = self._options.program
        return self._room.run(lambda room: self._runner.collect(room, paths, program=program)).tests

    def run_trials(self, trials: Sequence[Trial], budget: float) -> list[TrialRun | None]:
        """Run trials of the test in the clean room, with `budget` seconds for all that are not always wanted."""
        options, test = self._options, self._request.test
        return self._room.run(
            lambda room: run_trials(room, options, test, trials, budget=budget, seed=options.seed + 1)
        )

    def _run_uncached(self, test: TestFunction, run_options: RunOptions) -> TestRun:
        artifacts_dir = self.keep if run_options.resolve else None
        return self._room.run(lambda room: self._runner.run_test(room, test, run_options, artifacts_dir))

    def __enter__(self) -> ClaimRunner:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """Return the clean room to the pool, which discards it after an error."""
        return self._room.__exit__(error_type, error, traceback)
