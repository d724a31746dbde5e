"""Tracks lost hosts while they are rebuilt, so that their missing agents do not count as destroyed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from mngr.base.errors import MngrError

T = TypeVar("T")


MAX_WAIT_SECONDS = 600.0  # seconds to wait at most for a rebuild
SETTLE_SECONDS = 5.0  # seconds after a rebuild in which an older observation may still arrive


class HostRecovery:
    """Tracks which hosts are being rebuilt and when each rebuild ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rebuild_counts: dict[str, int] = {}
        self._rebuilt_at: dict[str, float] = {}

    @contextlib.contextmanager
    def rebuilding(self, host: str) -> Iterator[None]:
        """Mark the host as being rebuilt while the block runs."""
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
        """True when no rebuild is running and none ended in the last SETTLE_SECONDS."""
        with self._changed:
            elapsed = time.monotonic() - self._rebuilt_at.get(host, 0.0)
            return not self._rebuild_counts.get(host) and elapsed > SETTLE_SECONDS

    def run_when_settled(self, host: str, action: Callable[[], T]) -> T:
        """Run the action while no rebuild is running. Run it again if it failed and a rebuild happened meanwhile."""
        last_rebuild = self._wait_for_rebuild(host)
        try:
            return action()
        except MngrError:
            if self._wait_for_rebuild(host) == last_rebuild:
                raise
        return action()

    def _wait_for_rebuild(self, host: str) -> float | None:
        """Wait until no rebuild of the host is running. Return when the last one ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._rebuild_counts.get(host), timeout=MAX_WAIT_SECONDS)
            return self._rebuilt_at.get(host)
