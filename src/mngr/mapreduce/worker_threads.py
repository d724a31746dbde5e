"""Threads that do what takes time, each kind of work with a bound of its own; what came of it is read by one thread."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from mngr.base.errors import MngrError

QueuedJob = tuple[str, str, Callable[[], Any]]  # its place, its slug and what to do


_MAX_EXTRA_THREADS = 16  # threads of one kind beyond those that are always there


class JobQueue:
    """Jobs of one kind. Next is the one at whose place the fewest are under way, and a place where none is gets a thread more.

    So who does not answer keeps nobody waiting but its own.
    """

    def __init__(self, at_once: int) -> None:
        self._changed = threading.Condition()
        self._waiting: list[QueuedJob] = []
        self._running_by_host: dict[str, int] = {}
        self._thread_count = at_once
        self._extra_threads = 0  # threads

    def put(self, job: QueuedJob) -> bool:
        """Whether a thread more is needed for it, which then asks for `more`."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()
            free = self._thread_count + self._extra_threads - sum(self._running_by_host.values())
            is_first = job[0] != "" and not self._running_by_host.get(job[0])
            is_needed = is_first and len(self._waiting) > free and self._extra_threads < _MAX_EXTRA_THREADS
            self._extra_threads += is_needed
            return is_needed

    def take(self, *, more: bool = False) -> QueuedJob | None:
        """The next, once there is one; for `more` None when nobody waits who needs it."""
        with self._changed:
            if not more:
                self._changed.wait_for(lambda: self._waiting)
            found = min(self._waiting, key=lambda job: self._running_by_host.get(job[0], 0), default=None)
            if found is None or (more and self._running_by_host.get(found[0])):
                self._extra_threads -= 1
                return None
            self._waiting.remove(found)
            self._running_by_host[found[0]] = self._running_by_host.get(found[0], 0) + 1
            return found

    def finish(self, place: str) -> None:
        """A job there is done."""
        with self._changed:
            self._running_by_host[place] -= 1


class WorkerThreads:
    """Does jobs in the background. They are abandoned when the program ends: the journal knows what was begun."""

    def __init__(self, **at_once: int) -> None:
        self._queues: dict[str, JobQueue] = {}
        self._done: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self.wake_fd, self._wake_write_fd = os.pipe()
        for fd in (self.wake_fd, self._wake_write_fd):
            os.set_blocking(fd, False)
        for kind, number in at_once.items():
            self._queues[kind] = JobQueue(number)
            for _ in range(number):
                threading.Thread(target=self._run_jobs, args=(kind,), daemon=True).start()

    def submit(self, kind: str, slug: str, job: Callable[[], Any], place: str | None = None) -> None:
        """Have a job done when its turn comes; `place` is the host that it needs an answer of."""
        if self._queues[kind].put((place or "", slug, job)):
            threading.Thread(target=self._run_jobs, args=(kind, True), daemon=True).start()

    def take_results(self) -> list[tuple[str, str, Any]]:
        """(kind, slug, result or MngrError) of what was finished since; a bug of ours is raised here."""
        found: list[tuple[str, str, Any]] = []
        try:
            os.read(self.wake_fd, 65536)  # first: what is done after that says so once more
        except BlockingIOError:
            pass
        while not self._done.empty():
            found.append(self._done.get())
        for _, _, result in found:
            if isinstance(result, BaseException) and not isinstance(result, MngrError):
                raise result
        return found

    def _run_jobs(self, kind: str, more: bool = False) -> None:
        lane = self._queues[kind]
        while (taken := lane.take(more=more)) is not None:
            place, slug, job = taken
            try:
                result: Any = job()
            except OSError as error:  # a full disk, say
                result = MngrError(str(error))
            except BaseException as error:
                result = error
            lane.finish(place)
            self._done.put((kind, slug, result))
            os.write(self._wake_write_fd, b".")
