"""Runs every test k times on the unchanged code, in parallel clean rooms, before any agent starts."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool
from mngr.tmr.runners.protocol import TestRunner
from mngr.tmr.runners.test_run import RunOptions, TestFunction, TestRun

TestRunListener = Callable[[TestFunction, int, TestRun], None]


_MAX_BROKEN_ROOMS = 2  # clean rooms that a test may break before its outcome is a crash


class BaselinePlan(Struct):
    """The tests of a baseline, how often each of them is run, and what earlier runs have shown."""

    tests: Sequence[TestFunction]
    k: int = 2
    durations: Mapping[str, float] = {}  # seconds of earlier runs, by test
    known_runs: Mapping[str, Sequence[TestRun]] = {}  # they count, and are not repeated


class BaselineRuns(Struct):
    """A test with its baseline runs and their combined verdict."""

    test: TestFunction
    verdict: str  # pass | fail | flaky | skip
    runs: list[TestRun]

    @property
    def seconds(self) -> float:
        """Return the duration of the longest run."""
        return max((run.seconds for run in self.runs), default=0.0)

    @property
    def failing_run(self) -> TestRun | None:
        """Return the first run that neither passed nor was skipped, or None."""
        return next((run for run in self.runs if run.outcome not in ("pass", "skip")), None)


def combine_outcomes(outcomes: Sequence[str]) -> str:
    """Return the verdict of several runs: their common outcome, or `flaky` when they differ."""
    kinds = {"skip" if o == "skip" else "pass" if o == "pass" else "fail" for o in outcomes}
    return kinds.pop() if len(kinds) == 1 else "flaky"


def run_baseline(
    rooms: CleanRoomPool,
    commit: str,
    runner: TestRunner,
    plan: BaselinePlan,
    *,
    on_run_end: TestRunListener | None = None,
    stop: threading.Event | None = None,
    get_artifact_dir: Callable[[TestFunction, int], str | None] | None = None,
) -> list[BaselineRuns]:
    """Run each test up to k times and return one verdict per test, in the order of the plan.

    `on_run_end` is called after each run, by one thread at a time. Setting `stop` ends the baseline early; tests
    without any run are then missing from the result. `get_artifact_dir` returns the directory for a run's artifacts.
    Raises MngrError when the clean rooms fail.
    """
    queue = _BaselineQueue(plan)
    worker = _BaselineWorker(queue, runner, on_run_end, stop, get_artifact_dir)
    threads = [
        threading.Thread(target=worker.work, args=(rooms, commit), daemon=True)
        for _ in range(min(rooms.max_rooms, queue.test_count))
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        queue.close()
        raise
    if worker.errors:
        raise worker.errors[0]
    return [
        BaselineRuns(test=test, verdict=combine_outcomes([run.outcome for run in runs]), runs=runs)
        for test in plan.tests
        if (runs := queue.runs[test.id])
    ]


class _BaselineWorker:
    """Runs the tests of the queue. Several threads share one worker, each with its own clean room."""

    def __init__(
        self,
        queue: _BaselineQueue,
        runner: TestRunner,
        on_run_end: TestRunListener | None,
        stop: threading.Event | None,
        get_artifact_dir: Callable[[TestFunction, int], str | None] | None,
    ) -> None:
        self._queue, self._runner = queue, runner
        self._on_run_end, self._stop, self._get_artifact_dir = on_run_end, stop, get_artifact_dir
        self._record_lock = threading.Lock()
        self.errors: list[BaseException] = []

    def work(self, rooms: CleanRoomPool, commit: str) -> None:
        """Run tests until none is left, the baseline is stopped or a thread fails."""
        while not self._is_stopped() and self._queue.has_more():
            try:
                with rooms.acquire(commit) as room:
                    self._work_in_room(room)
            except CleanRoomBroken:
                continue  # the next loop acquires another clean room
            except BaseException as error:
                self.errors.append(error)
                self._queue.close()

    def _is_stopped(self) -> bool:
        return bool(self.errors) or (self._stop is not None and self._stop.is_set())

    def _work_in_room(self, room: CleanRoom) -> None:
        while not self._is_stopped() and (job := self._queue.take_next()) is not None:
            test, number = job
            artifact_dir = self._get_artifact_dir(test, number) if self._get_artifact_dir else None
            try:
                run = self._runner.run_test(room, test, RunOptions(loaded=number == 0), artifact_dir)
            except CleanRoomBroken as error:
                if self._queue.return_test(test) >= _MAX_BROKEN_ROOMS:
                    self._record(test, number, _make_crash_run(test, error, self._runner))
                raise
            except BaseException:
                self._queue.return_test(test)
                raise
            self._record(test, number, run)

    def _record(self, test: TestFunction, number: int, run: TestRun) -> None:
        with self._record_lock:
            self._queue.record_run(test, run)
            if self._on_run_end is not None:
                self._on_run_end(test, number, run)


def _make_crash_run(test: TestFunction, error: CleanRoomBroken, runner: TestRunner) -> TestRun:
    """Return a run with the outcome `crash`, for a test that breaks its clean room."""
    command_line = join(runner.command(test.id))
    reason = f"it breaks its clean room: {error.message}"
    return TestRun(
        test=test.id, outcome="crash", why=reason, seconds=0.0, exit_code=-1, missing=test.ids, command=command_line
    )


class _BaselineQueue:
    """Chooses the next run: every test once before any test a second time, long tests first.

    A test never runs twice at the same time.
    """

    def __init__(self, plan: BaselinePlan) -> None:
        tests, k, durations = plan.tests, plan.k, plan.durations
        self.runs = {test.id: list(plan.known_runs.get(test.id, ()))[:k] for test in tests}
        self.test_count = sum(1 for test in tests if len(self.runs[test.id]) < k)
        self._runs_per_test = k
        self._changed = threading.Condition()
        self._running_count = 0
        self._closed = False
        self._broken_rooms: dict[str, int] = {}
        self._heap: list[tuple[int, float, int, TestFunction]] = []
        self._order = {test.id: position for position, test in enumerate(tests)}
        for test in tests:
            longest = max((run.seconds for run in self.runs[test.id]), default=durations.get(test.id, float("inf")))
            self._push(test, longest)

    def _push(self, test: TestFunction, seconds: float) -> None:
        number = len(self.runs[test.id])
        if number < self._runs_per_test:
            heapq.heappush(self._heap, (number, -seconds, self._order[test.id], test))

    def has_more(self) -> bool:
        """True when a run is waiting or in progress and the queue is open."""
        with self._changed:
            return bool(self._heap or self._running_count) and not self._closed

    def take_next(self) -> tuple[TestFunction, int] | None:
        """Return the next test and its run number, or None when no run is left.

        Waits while a run in progress may still add another run of its test.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._heap or not self._running_count or self._closed)
            if not self._heap or self._closed:
                return None
            number, _, _, test = heapq.heappop(self._heap)
            self._running_count += 1
            return test, number

    def record_run(self, test: TestFunction, run: TestRun) -> None:
        """Store a finished run and queue the test's next run."""
        with self._changed:
            self.runs[test.id].append(run)
            self._running_count -= 1
            self._push(test, run.seconds)
            self._changed.notify_all()

    def return_test(self, test: TestFunction) -> int:
        """Count a run that failed because its clean room broke, and return how often that happened to the test.

        The test is queued again unless it has broken too many clean rooms.
        """
        with self._changed:
            self._broken_rooms[test.id] = self._broken_rooms.get(test.id, 0) + 1
            if self._broken_rooms[test.id] < _MAX_BROKEN_ROOMS:
                self._running_count -= 1
                self._push(test, float("inf"))
                self._changed.notify_all()
            return self._broken_rooms[test.id]

    def close(self) -> None:
        """Stop handing out runs and wake all waiting threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
