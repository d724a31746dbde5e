"""Hosts that are gone, while they are made anew with their agents: until that is done, who is not there is not yet destroyed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from mngr.base.errors import MngrError

T = TypeVar("T")


MAX_WAIT_SECONDS = 600.0  # seconds that others wait for it
SETTLE_SECONDS = 5.0  # seconds for which a look from before may still be on its way


class HostRecovery:
    """Who makes which host anew, and when that was last done."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rebuild_counts: dict[str, int] = {}
        self._rebuilt_at: dict[str, float] = {}

    @contextlib.contextmanager
    def rebuilding(self, host: str) -> Iterator[None]:
        """While one of its agents is brought back."""
        with self._changed:
            self._rebuild_counts[host] = self._rebuild_counts.get(host, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._rebuild_counts[host] -= 1
                self._rebuilt_at[host] = time.monotonic()
                self._changed.notify_all()

    def is_settled(self, host: str) -> bool:
        """Whether nobody does, or just has."""
        with self._changed:
            since = time.monotonic() - self._rebuilt_at.get(host, 0.0)
            return not self._rebuild_counts.get(host) and since > SETTLE_SECONDS

    def run_when_settled(self, host: str, act: Callable[[], T]) -> T:
        """What it gives when nobody is at work on the host; once more if somebody was meanwhile."""
        before = self._wait_for_rebuild(host)
        try:
            return act()
        except MngrError:
            if self._wait_for_rebuild(host) == before:
                raise
        return act()

    def _wait_for_rebuild(self, host: str) -> float | None:
        with self._changed:
            self._changed.wait_for(lambda: not self._rebuild_counts.get(host), timeout=MAX_WAIT_SECONDS)
            return self._rebuilt_at.get(host)
