"""Threads that do what takes time, each kind of work with a bound of its own; what came of it is read by one thread."""

from __future__ import annotations

import os
import queue
import threading

from mngr.errors import MngrError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Crew:
    """Does jobs in the background. They are abandoned when the program ends: the journal knows what was begun."""

    def __init__(self, **at_once: int) -> None:
        self._queues: dict[str, queue.SimpleQueue[tuple[str, Callable[[], Any]]]] = {}
        self._done: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self.wake, self._wake_in = os.pipe()
        os.set_blocking(self._wake_in, False)
        for kind, number in at_once.items():
            self._queues[kind] = queue.SimpleQueue()
            for _ in range(number):
                threading.Thread(target=self._serve, args=(kind,), daemon=True).start()

    def do(self, kind: str, slug: str, job: Callable[[], Any]) -> None:
        """Have a job done when its turn comes."""
        self._queues[kind].put((slug, job))

    def done(self) -> list[tuple[str, str, Any]]:
        """(kind, slug, result or MngrError) of what was finished since; a bug of ours is raised here."""
        found: list[tuple[str, str, Any]] = []
        while not self._done.empty():
            found.append(self._done.get())
        if found:
            os.read(self.wake, len(found))
        for _, _, result in found:
            if isinstance(result, BaseException) and not isinstance(result, MngrError):
                raise result
        return found

    def _serve(self, kind: str) -> None:
        while True:
            slug, job = self._queues[kind].get()
            try:
                result: Any = job()
            except OSError as error:  # a full disk, say
                result = MngrError(str(error))
            except BaseException as error:
                result = error
            self._done.put((kind, slug, result))
            os.write(self._wake_in, b".")
