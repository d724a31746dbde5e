"""Threads that do what takes time, each kind of work with a bound of its own; what came of it is read by one thread."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Any

from mngr.base.errors import MngrError

Job = tuple[str, str, Callable[[], Any]]  # its place, its slug and what to do


_MOST_MORE = 16  # threads of one kind beyond those that are always there


class Lane:
    """Jobs of one kind. Next is the one at whose place the fewest are under way, and a place where none is gets a thread more.

    So who does not answer keeps nobody waiting but its own.
    """

    def __init__(self, at_once: int) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._busy: dict[str, int] = {}
        self._at_once = at_once
        self._more = 0  # threads

    def put(self, job: Job) -> bool:
        """Whether a thread more is needed for it, which then asks for `more`."""
        with self._changed:
            self._waiting.append(job)
            self._changed.notify()
            free = self._at_once + self._more - sum(self._busy.values())
            is_first = job[0] != "" and not self._busy.get(job[0])
            is_needed = is_first and len(self._waiting) > free and self._more < _MOST_MORE
            self._more += is_needed
            return is_needed

    def take(self, *, more: bool = False) -> Job | None:
        """The next, once there is one; for `more` None when nobody waits who needs it."""
        with self._changed:
            if not more:
                self._changed.wait_for(lambda: self._waiting)
            found = min(self._waiting, key=lambda job: self._busy.get(job[0], 0), default=None)
            if found is None or (more and self._busy.get(found[0])):
                self._more -= 1
                return None
            self._waiting.remove(found)
            self._busy[found[0]] = self._busy.get(found[0], 0) + 1
            return found

    def leave(self, place: str) -> None:
        """A job there is done."""
        with self._changed:
            self._busy[place] -= 1


class Crew:
    """Does jobs in the background. They are abandoned when the program ends: the journal knows what was begun."""

    def __init__(self, **at_once: int) -> None:
        self._lanes: dict[str, Lane] = {}
        self._done: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self.wake, self._wake_in = os.pipe()
        for fd in (self.wake, self._wake_in):
            os.set_blocking(fd, False)
        for kind, number in at_once.items():
            self._lanes[kind] = Lane(number)
            for _ in range(number):
                threading.Thread(target=self._serve, args=(kind,), daemon=True).start()

    def do(self, kind: str, slug: str, job: Callable[[], Any], place: str | None = None) -> None:
        """Have a job done when its turn comes; `place` is the host that it needs an answer of."""
        if self._lanes[kind].put((place or "", slug, job)):
            threading.Thread(target=self._serve, args=(kind, True), daemon=True).start()

    def done(self) -> list[tuple[str, str, Any]]:
        """(kind, slug, result or MngrError) of what was finished since; a bug of ours is raised here."""
        found: list[tuple[str, str, Any]] = []
        try:
            os.read(self.wake, 65536)  # first: what is done after that says so once more
        except BlockingIOError:
            pass
        while not self._done.empty():
            found.append(self._done.get())
        for _, _, result in found:
            if isinstance(result, BaseException) and not isinstance(result, MngrError):
                raise result
        return found

    def _serve(self, kind: str, more: bool = False) -> None:
        lane = self._lanes[kind]
        while (taken := lane.take(more=more)) is not None:
            place, slug, job = taken
            try:
                result: Any = job()
            except OSError as error:  # a full disk, say
                result = MngrError(str(error))
            except BaseException as error:
                result = error
            lane.leave(place)
            self._done.put((kind, slug, result))
            os.write(self._wake_in, b".")
