"""Runs every test k times on the unchanged code, in parallel clean rooms, before any agent starts."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.base.shell import join
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool
from mngr.tmr.cleanroom.test_run import TEST_TIMEOUT, TestFunction, TestRun, build_command, run_test

TestRunListener = Callable[[TestFunction, int, TestRun], None]


_MAX_BROKEN_ROOMS = 2  # clean rooms that a test may break before its outcome is a crash


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
    tests: Sequence[TestFunction],
    pytest: Sequence[str],
    *,
    args: Sequence[str] = (),
    k: int = 2,
    timeout: float = TEST_TIMEOUT,
    durations: Mapping[str, float] | None = None,
    known_runs: Mapping[str, Sequence[TestRun]] | None = None,
    on_run_end: TestRunListener | None = None,
    stop: threading.Event | None = None,
    get_artifact_dir: Callable[[TestFunction, int], str | None] | None = None,
    **run_options: Any,
) -> list[BaselineRuns]:
    """Run each test up to k times and return one verdict per test, in the order of `tests`.

    `known_runs` count and are not repeated. `on_run_end` is called after each run, by one thread at a time.
    Setting `stop` ends the baseline early; tests without any run are then missing from the result.
    `get_artifact_dir` returns the directory for a run's artifacts. `run_options` are passed to `run_test`.
    Raises MngrError when the clean rooms fail.
    """
    queue = _BaselineQueue(tests, k, durations or {}, known_runs or {})
    record_lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not (stop and stop.is_set()) and not errors and queue.has_more():
            try:
                with rooms.acquire(commit) as room:
                    _in_room(room)
            except CleanRoomBroken:
                continue  # the next loop acquires another clean room
            except BaseException as error:
                errors.append(error)
                queue.close()

    def _in_room(room: CleanRoom) -> None:
        while not (stop and stop.is_set()) and not errors and (job := queue.take_next()) is not None:
            test, number = job
            artifact_dir = get_artifact_dir(test, number) if get_artifact_dir else None
            try:
                run = run_test(
                    room, pytest, test, args=args, timeout=timeout, keep=artifact_dir, loaded=number == 0, **run_options
                )
            except CleanRoomBroken as error:
                if queue.return_test(test) < _MAX_BROKEN_ROOMS:
                    raise
                command_line = join(build_command(pytest, args, test.id))
                record(test, number, _make_crash_run(test, error, command_line))
                raise
            except BaseException:
                queue.return_test(test)
                raise
            record(test, number, run)

    def record(test: TestFunction, number: int, run: TestRun) -> None:
        with record_lock:
            queue.record_run(test, run)
            if on_run_end is not None:
                on_run_end(test, number, run)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(rooms.max_rooms, queue.test_count))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        queue.close()
        raise
    if errors:
        raise errors[0]
    return [
        BaselineRuns(test=test, verdict=combine_outcomes([run.outcome for run in runs]), runs=runs)
        for test in tests
        if (runs := queue.runs[test.id])
    ]


def _make_crash_run(test: TestFunction, error: CleanRoomBroken, command_line: str) -> TestRun:
    """Return a run with the outcome `crash`, for a test that breaks its clean room."""
    reason = f"it breaks the room that it runs in: {error.message}"
    return TestRun(
        test=test.id, outcome="crash", why=reason, seconds=0.0, exit_code=-1, missing=test.ids, command=command_line
    )


class _BaselineQueue:
    """Chooses the next run: every test once before any test a second time, long tests first.

    A test never runs twice at the same time.
    """

    def __init__(
        self,
        tests: Sequence[TestFunction],
        k: int,
        durations: Mapping[str, float],
        known_runs: Mapping[str, Sequence[TestRun]],
    ) -> None:
        self.runs = {test.id: list(known_runs.get(test.id, ()))[:k] for test in tests}
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
