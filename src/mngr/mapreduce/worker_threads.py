"""Worker threads for slow jobs. Each kind of job has its own limit, and one thread reads the results."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from mngr.base.errors import MngrError

QueuedJob = tuple[str, str, Callable[[], Any]]  # the host, the task's slug and the function to call


_MAX_EXTRA_THREADS = 16  # additional threads of one kind, beyond those that always run


class JobQueue:
    """Jobs of one kind. The next job is the one whose host has the fewest running jobs.

    A host without a running job can get an additional thread, so that a silent host delays only its own jobs.
    """

    def __init__(self, thread_count: int) -> None:
        self._changed = threading.Condition()
        self._waiting: list[QueuedJob] = []
        self._running_by_host: dict[str, int] = {}
        self._thread_count = thread_count
        self._extra_threads = 0  # additional threads that run now

    def put(self, job: QueuedJob) -> bool:
        """Add a job. Return True if the caller must start an additional thread, which calls `take(more=True)`."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()
            free = self._thread_count + self._extra_threads - sum(self._running_by_host.values())
            is_first = job[0] != "" and not self._running_by_host.get(job[0])
            is_needed = is_first and len(self._waiting) > free and self._extra_threads < _MAX_EXTRA_THREADS
            self._extra_threads += is_needed
            return is_needed

    def take(self, *, more: bool = False) -> QueuedJob | None:
        """Wait for the next job and return it. An additional thread gets None when no job needs it."""
        with self._changed:
            if not more:
                self._changed.wait_for(lambda: self._waiting)
            next_job = min(self._waiting, key=lambda job: self._running_by_host.get(job[0], 0), default=None)
            if next_job is None or (more and self._running_by_host.get(next_job[0])):
                self._extra_threads -= 1
                return None
            self._waiting.remove(next_job)
            self._running_by_host[next_job[0]] = self._running_by_host.get(next_job[0], 0) + 1
            return next_job

    def finish(self, host: str) -> None:
        """Record that a job on this host has ended."""
        with self._changed:
            self._running_by_host[host] -= 1


class WorkerThreads:
    """Runs jobs in the background. They are abandoned when the program ends; the journal knows which had begun."""

    def __init__(self, **at_once: int) -> None:
        self._queues: dict[str, JobQueue] = {}
        self._done: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self.wake_fd, self._wake_write_fd = os.pipe()
        for fd in (self.wake_fd, self._wake_write_fd):
            os.set_blocking(fd, False)
        for kind, thread_count in at_once.items():
            self._queues[kind] = JobQueue(thread_count)
            for _ in range(thread_count):
                threading.Thread(target=self._run_jobs, args=(kind,), daemon=True).start()

    def submit(self, kind: str, slug: str, job: Callable[[], Any], host: str | None = None) -> None:
        """Queue a job. `host` is the host whose answer the job needs."""
        if self._queues[kind].put((host or "", slug, job)):
            threading.Thread(target=self._run_jobs, args=(kind, True), daemon=True).start()

    def take_results(self) -> list[tuple[str, str, Any]]:
        """Return (kind, slug, result or MngrError) of each job that ended since the last call.

        Raise any other exception.
        """
        results: list[tuple[str, str, Any]] = []
        try:
            os.read(self.wake_fd, 65536)  # Read before the queue, so that a job that ends later wakes the reader again.
        except BlockingIOError:
            pass
        while not self._done.empty():
            results.append(self._done.get())
        for _, _, result in results:
            if isinstance(result, BaseException) and not isinstance(result, MngrError):
                raise result
        return results

    def _run_jobs(self, kind: str, more: bool = False) -> None:
        """Run jobs of one kind until the queue has none for this thread."""
        jobs = self._queues[kind]
        while (queued := jobs.take(more=more)) is not None:
            host, slug, job = queued
            try:
                result: Any = job()
            except OSError as error:  # for example a full disk
                result = MngrError(str(error))
            except BaseException as error:
                result = error
            jobs.finish(host)
            self._done.put((kind, slug, result))
            os.write(self._wake_write_fd, b".")
