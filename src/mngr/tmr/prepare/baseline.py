"""Every test k times, untouched, in clean rooms in parallel: what fails before anybody has done anything."""

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


_MAX_BROKEN_ROOMS = 2  # rooms that a test may break before that is its outcome


class BaselineRuns(Struct):
    """A test and how it stands."""

    test: TestFunction
    verdict: str  # pass | fail | flaky | skip
    runs: list[TestRun]

    @property
    def seconds(self) -> float:
        """How long one run takes."""
        return max((run.seconds for run in self.runs), default=0.0)

    @property
    def failing_run(self) -> TestRun | None:
        """The run that shows what is wrong, if something is."""
        return next((run for run in self.runs if run.outcome not in ("pass", "skip")), None)


def combine_outcomes(outcomes: Sequence[str]) -> str:
    """What several runs say together."""
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
    known: Mapping[str, Sequence[TestRun]] | None = None,
    done: TestRunListener | None = None,
    stop: threading.Event | None = None,
    keep: Callable[[TestFunction, int], str | None] | None = None,
    **more: Any,
) -> list[BaselineRuns]:
    """A verdict per test, in order. `known` runs are not repeated; `done` is called after each run, by one thread at a time.

    `stop` ends it early: tests with no run yet are left out. `more` goes to `run_test`. Raises MngrError for the rooms' sake.
    """
    queue = _BaselineQueue(tests, k, durations or {}, known or {})
    guard = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not (stop and stop.is_set()) and not errors and queue.has_more():
            try:
                with rooms.acquire(commit) as room:
                    _in_room(room)
            except CleanRoomBroken:
                continue  # another one
            except BaseException as error:
                errors.append(error)
                queue.close()

    def _in_room(room: CleanRoom) -> None:
        while not (stop and stop.is_set()) and not errors and (job := queue.take_next()) is not None:
            test, number = job
            place = keep(test, number) if keep else None
            try:
                run = run_test(room, pytest, test, args=args, timeout=timeout, keep=place, loaded=number == 0, **more)
            except CleanRoomBroken as error:
                if queue.return_test(test) < _MAX_BROKEN_ROOMS:
                    raise
                line = join(build_command(pytest, args, test.id))
                note(test, number, _make_crash_run(test, error, line))
                raise
            except BaseException:
                queue.return_test(test)
                raise
            note(test, number, run)

    def note(test: TestFunction, number: int, run: TestRun) -> None:
        with guard:
            queue.record_run(test, run)
            if done is not None:
                done(test, number, run)

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


def _make_crash_run(test: TestFunction, error: CleanRoomBroken, line: str) -> TestRun:
    """The run of a test that ends even what watches it."""
    why = f"it breaks the room that it runs in: {error.message}"
    return TestRun(test=test.id, outcome="crash", why=why, seconds=0.0, exit_code=-1, missing=test.ids, command=line)


class _BaselineQueue:
    """Which run is next: each test once before any a second time, the longest first; a test never beside itself."""

    def __init__(
        self,
        tests: Sequence[TestFunction],
        k: int,
        durations: Mapping[str, float],
        known: Mapping[str, Sequence[TestRun]],
    ) -> None:
        self.runs = {test.id: list(known.get(test.id, ()))[:k] for test in tests}
        self.test_count = sum(1 for test in tests if len(self.runs[test.id]) < k)
        self._runs_per_test = k
        self._changed = threading.Condition()
        self._running_count = 0
        self._closed = False
        self._broken_rooms: dict[str, int] = {}
        self._heap: list[tuple[int, float, int, TestFunction]] = []
        self._order = {test.id: at for at, test in enumerate(tests)}
        for test in tests:
            longest = max((run.seconds for run in self.runs[test.id]), default=durations.get(test.id, float("inf")))
            self._push(test, longest)

    def _push(self, test: TestFunction, seconds: float) -> None:
        number = len(self.runs[test.id])
        if number < self._runs_per_test:
            heapq.heappush(self._heap, (number, -seconds, self._order[test.id], test))

    def has_more(self) -> bool:
        with self._changed:
            return bool(self._heap or self._running_count) and not self._closed

    def take_next(self) -> tuple[TestFunction, int] | None:
        """The next run; waits while one under way may bring another; None when there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._heap or not self._running_count or self._closed)
            if not self._heap or self._closed:
                return None
            number, _, _, test = heapq.heappop(self._heap)
            self._running_count += 1
            return test, number

    def record_run(self, test: TestFunction, run: TestRun) -> None:
        with self._changed:
            self.runs[test.id].append(run)
            self._running_count -= 1
            self._push(test, run.seconds)
            self._changed.notify_all()

    def return_test(self, test: TestFunction) -> int:
        """A run that did not come to be; how often that has happened. It comes again unless it is too often."""
        with self._changed:
            self._broken_rooms[test.id] = self._broken_rooms.get(test.id, 0) + 1
            if self._broken_rooms[test.id] < _MAX_BROKEN_ROOMS:
                self._running_count -= 1
                self._push(test, float("inf"))
                self._changed.notify_all()
            return self._broken_rooms[test.id]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
