"""Which host the next agent goes to, where a provider makes hosts: several share one, and there is one more when all are full."""

from __future__ import annotations

import contextlib
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Berth:
    """A place for one agent."""

    def __init__(self, address: str) -> None:
        self.address = address  # @HOST.PROVIDER, or @.PROVIDER for a new host
        self.host: str | None = None

    def taken(self, host: str) -> None:
        """The agent is on this host."""
        self.host = host


class Berths:
    """Counts the agents of this run on each host; at most `per_host`, or as many as there are when that is 0."""

    def __init__(self, on: str, per_host: int) -> None:
        self._on = on
        self._per_host = per_host if on.startswith("@.") else 0
        self._used: dict[str, int] = {}
        self._guard = threading.Lock()  # of the counts
        self._making = threading.Lock()  # held while a host is made, so that the others wait and share it

    @contextlib.contextmanager
    def berth(self) -> Iterator[Berth]:
        """A place that is given back when nothing is made in it."""
        if not self._per_host:
            yield Berth(self._on)
            return
        host = self._free()
        if host is None:
            with self._making:
                host = self._free()
                if host is None:
                    new = Berth(self._on)
                    yield new
                    with self._guard:
                        if new.host is not None:
                            self._used[new.host] = self._used.get(new.host, 0) + 1
                    return
        berth = Berth(f"@{host}{self._on[1:]}")
        try:
            yield berth
        finally:
            if berth.host is None:
                self.left(host)

    def left(self, host: str) -> None:
        """An agent on this host needs it no more."""
        with self._guard:
            if self._used.get(host, 0) > 0:
                self._used[host] -= 1

    def _free(self) -> str | None:
        with self._guard:
            for host, used in self._used.items():
                if used < self._per_host:
                    self._used[host] += 1
                    return host
        return None
