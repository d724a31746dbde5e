"""Every test k times, untouched, in clean rooms in parallel: what fails before anybody has done anything."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mngr.base.model import Record
from mngr.base.shell import join
from mngr.tmr.cleanroom.rooms import Broken, Room, Rooms
from mngr.tmr.cleanroom.test_run import TIMEOUT, Test, TestRun, command, run_test

Done = Callable[[Test, int, TestRun], None]


_TRIES = 2  # rooms that a test may break before that is its outcome


class Baseline(Record):
    """A test and how it stands."""

    test: Test
    verdict: str  # pass | fail | flaky | skip
    runs: list[TestRun]

    @property
    def seconds(self) -> float:
        """How long one run takes."""
        return max((run.seconds for run in self.runs), default=0.0)

    @property
    def evidence(self) -> TestRun | None:
        """The run that shows what is wrong, if something is."""
        return next((run for run in self.runs if run.outcome not in ("pass", "skip")), None)


def verdict(outcomes: Sequence[str]) -> str:
    """What several runs say together."""
    kinds = {"skip" if o == "skip" else "pass" if o == "pass" else "fail" for o in outcomes}
    return kinds.pop() if len(kinds) == 1 else "flaky"


def baseline(
    rooms: Rooms,
    commit: str,
    tests: Sequence[Test],
    pytest: Sequence[str],
    *,
    args: Sequence[str] = (),
    k: int = 2,
    timeout: float = TIMEOUT,
    durations: Mapping[str, float] | None = None,
    known: Mapping[str, Sequence[TestRun]] | None = None,
    done: Done | None = None,
    stop: threading.Event | None = None,
    keep: Callable[[Test, int], str | None] | None = None,
    **more: Any,
) -> list[Baseline]:
    """A verdict per test, in order. `known` runs are not repeated; `done` is called after each run, by one thread at a time.

    `stop` ends it early: tests with no run yet are left out. `more` goes to `run_test`. Raises MngrError for the rooms' sake.
    """
    queue = _Queue(tests, k, durations or {}, known or {})
    guard = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not (stop and stop.is_set()) and not errors and queue.has_more():
            try:
                with rooms.room(commit) as room:
                    _in_room(room)
            except Broken:
                continue  # another one
            except BaseException as error:
                errors.append(error)
                queue.close()

    def _in_room(room: Room) -> None:
        while not (stop and stop.is_set()) and not errors and (job := queue.take()) is not None:
            test, number = job
            place = keep(test, number) if keep else None
            try:
                run = run_test(
                    room, pytest, test, args=args, timeout=timeout, keep=place, loaded=number == 0, **more
                )
            except Broken as error:
                if queue.give_back(test) < _TRIES:
                    raise
                line = join(command(pytest, args, test.id))
                note(test, number, _breaks(test, error, line))
                raise
            except BaseException:
                queue.give_back(test)
                raise
            note(test, number, run)

    def note(test: Test, number: int, run: TestRun) -> None:
        with guard:
            queue.settle(test, run)
            if done is not None:
                done(test, number, run)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(rooms.at_once, queue.jobs))]
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
        Baseline(test=test, verdict=verdict([run.outcome for run in runs]), runs=runs)
        for test in tests
        if (runs := queue.runs[test.id])
    ]


def _breaks(test: Test, error: Broken, line: str) -> TestRun:
    """The run of a test that ends even what watches it."""
    why = f"it breaks the room that it runs in: {error.message}"
    return TestRun(
        test=test.id, outcome="crash", why=why, seconds=0.0, exit_code=-1, missing=test.ids, command=line
    )


class _Queue:
    """Which run is next: each test once before any a second time, the longest first; a test never beside itself."""

    def __init__(
        self,
        tests: Sequence[Test],
        k: int,
        durations: Mapping[str, float],
        known: Mapping[str, Sequence[TestRun]],
    ) -> None:
        self.runs = {test.id: list(known.get(test.id, ()))[:k] for test in tests}
        self.jobs = sum(1 for test in tests if len(self.runs[test.id]) < k)
        self._k = k
        self._changed = threading.Condition()
        self._under_way = 0
        self._closed = False
        self._breaks: dict[str, int] = {}
        self._heap: list[tuple[int, float, int, Test]] = []
        self._order = {test.id: at for at, test in enumerate(tests)}
        for test in tests:
            longest = max(
                (run.seconds for run in self.runs[test.id]), default=durations.get(test.id, float("inf"))
            )
            self._push(test, longest)

    def _push(self, test: Test, seconds: float) -> None:
        number = len(self.runs[test.id])
        if number < self._k:
            heapq.heappush(self._heap, (number, -seconds, self._order[test.id], test))

    def has_more(self) -> bool:
        with self._changed:
            return bool(self._heap or self._under_way) and not self._closed

    def take(self) -> tuple[Test, int] | None:
        """The next run; waits while one under way may bring another; None when there is none."""
        with self._changed:
            self._changed.wait_for(lambda: self._heap or not self._under_way or self._closed)
            if not self._heap or self._closed:
                return None
            number, _, _, test = heapq.heappop(self._heap)
            self._under_way += 1
            return test, number

    def settle(self, test: Test, run: TestRun) -> None:
        with self._changed:
            self.runs[test.id].append(run)
            self._under_way -= 1
            self._push(test, run.seconds)
            self._changed.notify_all()

    def give_back(self, test: Test) -> int:
        """A run that did not come to be; how often that has happened. It comes again unless it is too often."""
        with self._changed:
            self._breaks[test.id] = self._breaks.get(test.id, 0) + 1
            if self._breaks[test.id] < _TRIES:
                self._under_way -= 1
                self._push(test, float("inf"))
                self._changed.notify_all()
            return self._breaks[test.id]

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
