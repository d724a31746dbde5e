"""Which hosts answer."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.ops.watch import Glance


class Reach:
    """Remembers who does not answer."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def news(self, glance: Glance) -> list[str]:
        """A sentence for each host that answers no more, or again."""
        back = self._away & {view.host for view in glance.seen}
        found = [f"{host} answers again" for host in sorted(back)]
        for host, error in glance.errors.items():
            if host not in self._away:
                found.append(f"{host} does not answer, its agents are left to work: {error.message}")
        self._away = (self._away - back) | set(glance.errors)
        return found
