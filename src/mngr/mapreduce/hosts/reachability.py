"""Tracks which hosts answer."""

from __future__ import annotations

from mngr.agents.inspect.watch import WatchUpdate
from mngr.base.errors import HostGone, HostStopped


class HostReachability:
    """Remembers the hosts that do not answer."""

    def __init__(self) -> None:
        self.unreachable: set[str] = set()
        self._lost: set[str] = set()

    def update(self, watch_update: WatchUpdate) -> list[str]:
        """Return a sentence for each host that stopped answering or answers again."""
        back = self.unreachable & {view.host for view in watch_update.agents}
        messages = [f"{host} answers again" for host in sorted(back)]
        for host, error in watch_update.errors.items():
            if isinstance(error, HostGone):
                if host not in self._lost:
                    messages.append(f"{error.message}; mngr rebuilds the host and restores its agents")
            elif isinstance(error, HostStopped):
                if host not in self.unreachable:
                    messages.append(error.message)
            elif host not in self.unreachable:
                messages.append(f"{host} does not answer, and its agents may still be working: {error.message}")
        self.unreachable = (self.unreachable - back) | set(watch_update.errors)
        lost = {host for host, error in watch_update.errors.items() if isinstance(error, HostGone)}
        self._lost = (self._lost - back) | lost
        return messages
