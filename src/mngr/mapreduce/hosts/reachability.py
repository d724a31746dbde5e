"""Which hosts answer."""

from __future__ import annotations

from mngr.agents.inspect.watch import WatchUpdate
from mngr.base.errors import HostGone, HostStopped


class HostReachability:
    """Remembers who does not answer."""

    def __init__(self) -> None:
        self.unreachable: set[str] = set()
        self._lost: set[str] = set()

    def update(self, glance: WatchUpdate) -> list[str]:
        """A sentence for each host that answers no more, or again."""
        back = self.unreachable & {view.host for view in glance.agents}
        found = [f"{host} answers again" for host in sorted(back)]
        for host, error in glance.errors.items():
            if isinstance(error, HostGone):
                if host not in self._lost:
                    found.append(f"{error.message}; it is made anew with its agents")
            elif isinstance(error, HostStopped):
                if host not in self.unreachable:
                    found.append(error.message)
            elif host not in self.unreachable:
                found.append(f"{host} does not answer, its agents are left to work: {error.message}")
        self.unreachable = (self.unreachable - back) | set(glance.errors)
        lost = {host for host, error in glance.errors.items() if isinstance(error, HostGone)}
        self._lost = (self._lost - back) | lost
        return found
