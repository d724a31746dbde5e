"""Which hosts answer."""

from __future__ import annotations

from mngr.agents.inspect.watch import Glance
from mngr.base.errors import HostGone, HostStopped


class Reach:
    """Remembers who does not answer."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self._gone: set[str] = set()

    def news(self, glance: Glance) -> list[str]:
        """A sentence for each host that answers no more, or again."""
        back = self.away & {view.host for view in glance.seen}
        found = [f"{host} answers again" for host in sorted(back)]
        for host, error in glance.errors.items():
            if isinstance(error, HostGone):
                if host not in self._gone:
                    found.append(f"{error.message}; it is made anew with its agents")
            elif isinstance(error, HostStopped):
                if host not in self.away:
                    found.append(error.message)
            elif host not in self.away:
                found.append(f"{host} does not answer, its agents are left to work: {error.message}")
        self.away = (self.away - back) | set(glance.errors)
        lost = {host for host, error in glance.errors.items() if isinstance(error, HostGone)}
        self._gone = (self._gone - back) | lost
        return found
