"""Hosts that are gone, while they are made anew with their agents: until that is done, who is not there is not yet destroyed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from mngr.base.errors import MngrError

T = TypeVar("T")


LONGEST = 600.0  # seconds that others wait for it
SETTLING = 5.0  # seconds for which a look from before may still be on its way


class Wrecks:
    """Who makes which host anew, and when that was last done."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work: dict[str, int] = {}
        self._done: dict[str, float] = {}

    @contextlib.contextmanager
    def salvage(self, host: str) -> Iterator[None]:
        """While one of its agents is brought back."""
        with self._changed:
            self._at_work[host] = self._at_work.get(host, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._at_work[host] -= 1
                self._done[host] = time.monotonic()
                self._changed.notify_all()

    def is_calm(self, host: str) -> bool:
        """Whether nobody does, or just has."""
        with self._changed:
            since = time.monotonic() - self._done.get(host, 0.0)
            return not self._at_work.get(host) and since > SETTLING

    def calmly(self, host: str, act: Callable[[], T]) -> T:
        """What it gives when nobody is at work on the host; once more if somebody was meanwhile."""
        before = self._wait(host)
        try:
            return act()
        except MngrError:
            if self._wait(host) == before:
                raise
        return act()

    def _wait(self, host: str) -> float | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._at_work.get(host), timeout=LONGEST)
            return self._done.get(host)
