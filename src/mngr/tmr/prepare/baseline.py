"""Runs every test several times on the unchanged code, in parallel clean rooms, before any agent starts.

Tests run as the project runs them: many in one process, first in the runner's order, then in a random one. A test gets
its own process only if it failed, differed between the passes, ended the process or did not end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from mngr.base.errors import EngineBusy, Unreachable
from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_room import CleanRoom, CleanRoomBroken
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.prepare.shards import ALONE, Shard, split_tests
from mngr.tmr.prepare.verdict_of_one_test import combine_runs, has_answer, has_to_run_alone
from mngr.tmr.runners.protocol import TestRunner
from mngr.tmr.runners.test_run import TEST_TIMEOUT, SuiteLines, SuiteRequest, SuiteRun, TestFunction, TestRun

TestRunListener = Callable[[TestFunction, int, TestRun], None]


_MIN_LOST_HOSTS = 3  # hosts that a baseline may lose, if it has fewer hosts
_MAX_BROKEN_ROOMS = 2  # clean rooms that a test may break before its outcome is a crash


class BaselinePlan(Struct):
    """The tests of a baseline, how often each of them is run, and what earlier runs have shown."""

    tests: Sequence[TestFunction]
    runs: int = 2
    timeout: float = TEST_TIMEOUT  # seconds for one test
    durations: Mapping[str, float] = {}  # seconds of earlier runs, by test
    trace: bool = False  # record the lines that each test runs, in the first pass
    known_runs: Mapping[str, Sequence[TestRun]] = {}  # they count, and are not repeated


class BaselineRuns(Struct):
    """A test with its baseline runs and their combined verdict."""

    test: TestFunction
    verdict: str  # one of verdict_of_one_test.VERDICTS
    runs: list[TestRun]

    @property
    def seconds(self) -> float:
        """Return the duration of the longest run."""
        return max((run.seconds for run in self.runs), default=0.0)

    @property
    def failing_run(self) -> TestRun | None:
        """Return the run that shows best why the test fails, or None."""
        return find_failing_run(self.runs)


def find_failing_run(runs: Sequence[TestRun]) -> TestRun | None:
    """Return the first run that failed alone, else the first that failed in the suite, else None."""
    failing = [run for run in runs if run.outcome not in ("pass", "skip")]
    return next((run for run in failing if run.seen == "alone"), failing[0] if failing else None)


def run_baseline(
    rooms: CleanRoomPool,
    commit: str,
    runner: TestRunner,
    plan: BaselinePlan,
    *,
    on_run_end: TestRunListener | None = None,
    on_lines: Callable[[SuiteLines], None] | None = None,
    get_artifact_dir: Callable[[TestFunction, int], str | None] | None = None,
) -> list[BaselineRuns]:
    """Run each test up to `plan.runs` times in the suite, and alone if needed. Return one verdict per test, in the plan's order.

    `on_run_end` is called after each run, and `on_lines` after each traced shard, by one thread at a time. `get_artifact_dir` returns the directory for a run's
    artifacts. Raises MngrError when the clean rooms fail.
    """
    queue = _BaselineQueue(plan, rooms.max_rooms)
    worker = _BaselineWorker(queue, runner, plan, on_run_end, on_lines, get_artifact_dir)
    threads = [
        threading.Thread(target=worker.work, args=(rooms, commit), daemon=True)
        for _ in range(min(rooms.max_rooms, queue.first_job_count))
    ]
    for thread in threads:
        thread.start()
    try:
        queue.wait_until_closed()
        for thread in threads:
            while thread.is_alive():
                rooms.hosts.stop_creating()  # nobody needs a host that still waits for capacity
                thread.join(1.0)
    except BaseException:
        queue.close()
        raise
    if worker.errors:
        raise worker.errors[0]
    return [
        BaselineRuns(test=test, verdict=combine_runs(runs), runs=runs)
        for test in plan.tests
        if (runs := queue.runs[test.id])
    ]


class _BaselineWorker:
    """Runs the jobs of the queue. Several threads share one worker, each with its own clean room."""

    def __init__(
        self,
        queue: _BaselineQueue,
        runner: TestRunner,
        plan: BaselinePlan,
        on_run_end: TestRunListener | None,
        on_lines: Callable[[SuiteLines], None] | None,
        get_artifact_dir: Callable[[TestFunction, int], str | None] | None,
    ) -> None:
        self._queue, self._runner, self._plan = queue, runner, plan
        self._on_run_end = on_run_end
        self._on_lines = on_lines
        self._get_artifact_dir = get_artifact_dir
        self._record_lock = threading.Lock()
        self._lost_hosts = 0
        self.errors: list[BaseException] = []

    def work(self, rooms: CleanRoomPool, commit: str) -> None:
        """Run jobs until none is left or a thread fails."""
        while not self.errors and self._queue.has_more():
            try:
                with rooms.acquire(commit) as room:
                    self._work_in_room(room)
            except CleanRoomBroken:
                continue  # the next loop acquires another clean room
            except EngineBusy as error:
                if not rooms.hosts.has_host and self._queue.has_more():  # else others run the tests
                    self.errors.append(error)
                    self._queue.close()
            except Unreachable as error:
                lost_hosts = self._count_lost_host()
                if not rooms.creates_hosts or lost_hosts > max(_MIN_LOST_HOSTS, rooms.max_rooms):
                    self.errors.append(error)
                    self._queue.close()
            except BaseException as error:
                if self._queue.has_more():
                    self.errors.append(error)
                    self._queue.close()

    def _count_lost_host(self) -> int:
        """Add one to the number of lost hosts and return it."""
        with self._record_lock:
            self._lost_hosts += 1
            return self._lost_hosts

    def _work_in_room(self, room: CleanRoom) -> None:
        while not self.errors and (shard := self._queue.take_next()) is not None:
            try:
                if shard.number == ALONE:
                    self._run_alone(room, shard.tests[0])
                else:
                    self._run_shard(room, shard)
            except CleanRoomBroken as error:
                self._requeue_broken_shard(shard, error)
                raise
            except Unreachable:  # the host is lost, and with it only this shard
                self._queue.add([shard])
                raise
            finally:
                self._queue.end_job()

    def _run_alone(self, room: CleanRoom, test: TestFunction) -> None:
        run = self._runner.run_test(room, test, artifacts_dir=self._find_artifact_dir(test))
        self._record_run(test, run)

    def _run_shard(self, room: CleanRoom, shard: Shard) -> None:
        request = SuiteRequest(
            targets=list(dict.fromkeys(test.path for test in shard.tests)),
            tests=shard.tests,
            shuffle=shard.number or None,
            stall=self._plan.timeout,
            trace=self._plan.trace and shard.number == 0,
        )
        tests = {test.id: test for test in shard.tests}
        suite_run = self._runner.run_suite(room, request, lambda test_id: self._find_artifact_dir(tests[test_id]))
        if request.trace and self._on_lines is not None:
            with self._record_lock:
                self._on_lines(suite_run.lines)
        for test in shard.tests:
            if test.id in suite_run.runs:
                self._record_run(test, suite_run.runs[test.id])
        if suite_run.culprit:
            culprit = tests[suite_run.culprit]
            self._record_run(culprit, _make_interrupted_run(culprit, suite_run, self._runner))
        left = [test for test in shard.tests if test.id not in suite_run.runs and test.id != suite_run.culprit]
        if len(left) == len(shard.tests):
            self._split_stuck_shard(shard, suite_run)
        elif left:
            self._queue.add([Shard(number=shard.number, tests=left)])

    def _split_stuck_shard(self, shard: Shard, suite_run: SuiteRun) -> None:
        """Run the files of a shard in which nothing ran one by one. A single file gets the error of the process."""
        files = _group_by_file(shard.tests)
        if len(files) > 1:
            self._queue.add([Shard(number=shard.number, tests=tests) for tests in files])
            return
        for test in shard.tests:
            reason = suite_run.whole.why or "it did not run"
            self._record_run(
                test,
                suite_run.whole.replace(
                    test=test.id,
                    seen="suite",
                    outcome="error",
                    why=reason,
                    missing=test.ids,
                    ids={},
                    seconds=0.0,
                    command=join(self._runner.command(test.id)),
                ),
            )

    def _requeue_broken_shard(self, shard: Shard, error: CleanRoomBroken) -> None:
        """After a clean room broke, run the shard again in smaller parts. A single test that does it again has crashed."""
        broken_rooms = shard.broken_rooms + 1
        if len(shard.tests) > 1:
            middle = len(shard.tests) // 2 if broken_rooms > 1 else len(shard.tests)
            parts = [part for part in (shard.tests[:middle], shard.tests[middle:]) if part]
            self._queue.add([shard.replace(tests=part, broken_rooms=broken_rooms) for part in parts])
        elif broken_rooms < _MAX_BROKEN_ROOMS:
            self._queue.add([shard.replace(broken_rooms=broken_rooms)])
        else:
            run = _make_crash_run(shard.tests[0], error, self._runner)
            self._record_run(shard.tests[0], run.replace(seen="alone" if shard.number == ALONE else "suite"))

    def _find_artifact_dir(self, test: TestFunction) -> str | None:
        if self._get_artifact_dir is None:
            return None
        return self._get_artifact_dir(test, len(self._queue.runs[test.id]))

    def _record_run(self, test: TestFunction, run: TestRun) -> None:
        with self._record_lock:
            runs = self._queue.runs[test.id]
            runs.append(run)
            if self._on_run_end is not None:
                self._on_run_end(test, len(runs) - 1, run)


class _BaselineQueue:
    """The jobs of a baseline: the shards of one pass after another, then the tests that must run alone.

    A test never runs twice at the same time.
    """

    def __init__(self, plan: BaselinePlan, cores: int) -> None:
        self.runs = {test.id: list(plan.known_runs.get(test.id, ())) for test in plan.tests}
        self._plan, self._cores = plan, cores
        self._changed = threading.Condition()
        self._jobs: deque[Shard] = deque()
        self._next_pass = 0
        self._running_count = 0
        self._closed = False
        self._start_next_stage()
        self.first_job_count = len(self._jobs)

    def _start_next_stage(self) -> None:
        """Add the jobs of the next pass that has any. After the last pass, add the tests that must run alone."""
        plan = self._plan
        while not self._jobs and self._next_pass < plan.runs:
            tests = [test for test in plan.tests if self._needs_pass(test, self._next_pass)]
            groups = split_tests(tests, plan.durations, self._cores)
            self._jobs.extend(Shard(number=self._next_pass, tests=group) for group in groups)
            self._next_pass += 1
        if not self._jobs:
            unanswered = [test for test in plan.tests if self._needs_run_alone(test)]
            self._jobs.extend(Shard(number=ALONE, tests=[test]) for test in unanswered)
        self._closed = self._closed or not self._jobs

    def _needs_pass(self, test: TestFunction, number: int) -> bool:
        """True when a test has not run in a pass yet. A file that cannot be collected never runs in the suite."""
        runs = self.runs[test.id]
        in_suite = [run for run in runs if run.seen == "suite"]
        has_answer_alone = len(runs) >= self._plan.runs and not in_suite
        ends_process = any(run.outcome in ("timeout", "crash") for run in in_suite)
        return test.id != test.path and not has_answer_alone and not ends_process and len(in_suite) <= number

    def _needs_run_alone(self, test: TestFunction) -> bool:
        runs = self.runs[test.id]
        return has_to_run_alone(runs) and not has_answer(runs, self._plan.runs)

    def has_more(self) -> bool:
        """True until the last job has ended or the queue is closed."""
        with self._changed:
            return not self._closed

    def take_next(self) -> Shard | None:
        """Return the next job, or None when no job is left. Waits while a running job may still add others."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self._closed)
            if self._closed:
                return None
            self._running_count += 1
            return self._jobs.popleft()

    def add(self, shards: Sequence[Shard]) -> None:
        """Add jobs to the current stage. Only a job that is still running may do this."""
        with self._changed:
            self._jobs.extend(shards)
            self._changed.notify_all()

    def end_job(self) -> None:
        """Count a job as ended. The last job of a stage starts the next stage."""
        with self._changed:
            self._running_count -= 1
            if not self._jobs and not self._running_count and not self._closed:
                self._start_next_stage()
            self._changed.notify_all()

    def wait_until_closed(self) -> None:
        """Wait until the last job has ended or the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed)

    def close(self) -> None:
        """Stop handing out jobs and wake all waiting threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _group_by_file(tests: Sequence[TestFunction]) -> list[list[TestFunction]]:
    files: dict[str, list[TestFunction]] = {}
    for test in tests:
        files.setdefault(test.path, []).append(test)
    return list(files.values())


def _make_interrupted_run(test: TestFunction, suite_run: SuiteRun, runner: TestRunner) -> TestRun:
    """Return the run of the test during which the process of a shard ended."""
    whole = suite_run.whole
    is_timeout = whole.outcome == "timeout"
    return TestRun(
        test=test.id,
        seen="suite",
        outcome="timeout" if is_timeout else "crash",
        why=whole.why,
        seconds=0.0,
        exit_code=whole.exit_code,
        missing=test.ids,
        command=join(runner.command(test.id)),
        output=whole.output,
    )


def _make_crash_run(test: TestFunction, error: CleanRoomBroken, runner: TestRunner) -> TestRun:
    """Return a run with the outcome `crash`, for a test that breaks its clean room."""
    reason = f"it breaks its clean room: {error.message}"
    return TestRun(
        test=test.id,
        outcome="crash",
        why=reason,
        seconds=0.0,
        exit_code=-1,
        missing=test.ids,
        command=join(runner.command(test.id)),
    )
