"""The hosts that were made for a run: since when, until when, and what that costs."""

from __future__ import annotations

import time

from mngr.base import clock
from mngr.base.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ROWS = ("host", "release", "released", "release_failed", "rested", "woken")


class Rented(Record):
    """A host: `running`, `resting` (stopped with all that is on it), `leaving` or `gone`."""

    provider: str
    state: str = "running"
    rate: float | None = None  # US dollars an hour
    since: str | None = None  # it costs; None: not now
    hours: float = 0.0  # before

    def until(self, at: str | None = None) -> float:
        """Hours that it cost, up to now or another time."""
        if self.since is None:
            return self.hours
        end = clock.parse_stamp(at) if at else time.time()
        return self.hours + max(0.0, end - clock.parse_stamp(self.since)) / 3600

    def still(self, at: str, state: str) -> Rented:
        """The same, from some time on at no cost."""
        return self.replace(state=state, hours=self.until(at), since=None)


def step(hosts: dict[str, Rented], row: dict[str, Any]) -> None:
    """What a row of the journal says of a host."""
    kind, name = row["type"], str(row["host"])
    if kind == "host":
        hosts[name] = Rented(
            provider=row["provider"], rate=row.get("rate"), since=row.get("since") or row["at"]
        )
        if row.get("until"):  # it has gone already
            hosts[name] = hosts[name].still(row["until"], "gone")
    elif name not in hosts:
        return
    elif kind == "release":
        hosts[name] = hosts[name].replace(state="leaving")
    elif kind == "release_failed":
        hosts[name] = hosts[name].replace(state="running")
    elif kind == "released":
        hosts[name] = hosts[name].still(row["at"], "gone")
    elif kind == "rested":
        hosts[name] = hosts[name].still(row["at"], "resting")
    elif kind == "woken" and hosts[name].state == "resting":
        hosts[name] = hosts[name].replace(state="running", since=row["at"])


def cost(hosts: Iterable[Rented]) -> float:
    """US dollars, as far as a price is set."""
    return sum(host.until() * (host.rate or 0.0) for host in hosts)


def bill(hosts: list[Rented]) -> dict[str, Any]:
    """For who looks at a run: how many there were and are, their hours, and what they cost; None when no price is set."""
    rated = [host for host in hosts if host.rate is not None]
    return {
        "made": len(hosts),
        "running": sum(host.since is not None for host in hosts),
        "hours": round(sum(host.until() for host in hosts), 4),
        "cost_usd": round(cost(rated), 6) if rated else None,
    }
