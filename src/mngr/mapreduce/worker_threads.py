"""Worker threads for slow jobs. Each kind of job has its own limit, and one thread reads the results."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from mngr.base.errors import MngrError

_MAX_EXTRA_THREADS = 16  # additional threads of one kind, beyond those that always run


class JobKind(Enum):
    """The kinds of jobs of a run."""

    LAUNCH = auto()  # create a task's agent
    PROMPT = auto()  # send a new agent its prompt
    REMIND = auto()  # send a message to a working or parked agent
    PULL = auto()  # collect a task's work
    CHECK = auto()  # verify a claim by running tests
    QUICK_CHECK = auto()  # verify a claim that needs no test run
    COUNT = auto()  # ask the agents what they have used
    PREPARE = auto()  # make the snapshot for new hosts
    RELEASE = auto()  # release a host
    STOP = auto()  # stop agents of one host


# The threads of each kind. The limits of a run set those of the other kinds.
THREAD_COUNTS = {
    JobKind.REMIND: 8,
    JobKind.PULL: 4,
    JobKind.QUICK_CHECK: 1,
    JobKind.COUNT: 1,
    JobKind.PREPARE: 1,
    JobKind.RELEASE: 4,
    JobKind.STOP: 4,
}


@dataclass(frozen=True, eq=False)
class QueuedJob:
    """A job that waits for a thread."""

    host: str  # the host whose answer the job needs, or an empty string
    subject: str
    run: Callable[[], Any]


@dataclass(frozen=True)
class JobResult:
    """The end of a job."""

    kind: JobKind
    subject: str  # the slug of the job's task, or the name of its host or snapshot
    value: Any  # what the job returned, or the MngrError that it raised


class JobQueue:
    """Jobs of one kind. The next job is the one whose host has the fewest running jobs.

    A host without a running job can get an additional thread, so that a silent host delays only its own jobs.
    """

    def __init__(self, thread_count: int) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[str, deque[tuple[int, QueuedJob]]] = {}  # numbered jobs by host, without empty queues
        self._waiting_count = 0
        self._next_number = 0
        self._running_by_host: dict[str, int] = {}
        self._thread_count = thread_count
        self._extra_threads = 0  # additional threads that run now

    def put(self, job: QueuedJob) -> bool:
        """Add a job. Return True if the caller must start an additional thread, which calls `take(more=True)`."""
        with self._changed:
            self._waiting.setdefault(job.host, deque()).append((self._next_number, job))
            self._next_number += 1
            self._waiting_count += 1
            self._changed.notify()
            free = self._thread_count + self._extra_threads - sum(self._running_by_host.values())
            is_first = job.host != "" and not self._running_by_host.get(job.host)
            is_needed = is_first and self._waiting_count > free and self._extra_threads < _MAX_EXTRA_THREADS
            self._extra_threads += is_needed
            return is_needed

    def take(self, *, more: bool = False) -> QueuedJob | None:
        """Wait for the next job and return it. An additional thread gets None when no job needs it."""
        with self._changed:
            if not more:
                self._changed.wait_for(lambda: self._waiting)
            # The first job of the host with the fewest running jobs; of several such hosts, the oldest job.
            host = min(
                self._waiting,
                key=lambda name: (self._running_by_host.get(name, 0), self._waiting[name][0][0]),
                default=None,
            )
            if host is None or (more and self._running_by_host.get(host)):
                self._extra_threads -= 1
                return None
            next_job = self._waiting[host].popleft()[1]
            if not self._waiting[host]:
                del self._waiting[host]
            self._waiting_count -= 1
            self._running_by_host[host] = self._running_by_host.get(host, 0) + 1
            return next_job

    def finish(self, host: str) -> None:
        """Record that a job on this host has ended."""
        with self._changed:
            self._running_by_host[host] -= 1
            if not self._running_by_host[host]:
                del self._running_by_host[host]


class WorkerThreads:
    """Runs jobs in the background. They are abandoned when the program ends; the journal knows which had begun."""

    def __init__(self, thread_counts: Mapping[JobKind, int]) -> None:
        self._queues: dict[JobKind, JobQueue] = {}
        self._done: queue.SimpleQueue[JobResult] = queue.SimpleQueue()
        self.wake_fd, self._wake_write_fd = os.pipe()
        for fd in (self.wake_fd, self._wake_write_fd):
            os.set_blocking(fd, False)
        for kind, thread_count in thread_counts.items():
            self._queues[kind] = JobQueue(thread_count)
            for _ in range(thread_count):
                threading.Thread(target=self._run_jobs, args=(kind,), daemon=True).start()

    def submit(self, kind: JobKind, subject: str, job: Callable[[], Any], host: str | None = None) -> None:
        """Queue a job. `host` is the host whose answer the job needs."""
        if self._queues[kind].put(QueuedJob(host or "", subject, job)):
            threading.Thread(target=self._run_jobs, args=(kind, True), daemon=True).start()

    def take_results(self) -> list[JobResult]:
        """Return the result of each job that ended since the last call. Raise a job's exception if it is no MngrError."""
        results: list[JobResult] = []
        try:
            os.read(self.wake_fd, 65536)  # Read before the queue, so that a job that ends later wakes the reader again.
        except BlockingIOError:
            pass
        while not self._done.empty():
            results.append(self._done.get())
        for result in results:
            if isinstance(result.value, BaseException) and not isinstance(result.value, MngrError):
                raise result.value
        return results

    def _run_jobs(self, kind: JobKind, more: bool = False) -> None:
        """Run jobs of one kind until the queue has none for this thread."""
        jobs = self._queues[kind]
        while (job := jobs.take(more=more)) is not None:
            try:
                value: Any = job.run()
            except OSError as error:  # for example a full disk
                place = f": {error.filename}" if error.filename else ""
                value = MngrError(f"{error.strerror or error}{place}")
            except BaseException as error:
                value = error
            jobs.finish(job.host)
            self._done.put(JobResult(kind, job.subject, value))
            os.write(self._wake_write_fd, b".")
