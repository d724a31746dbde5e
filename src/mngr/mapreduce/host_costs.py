"""Tracks the hosts of a run: how long each one was billed and what that costs."""

from __future__ import annotations

import time

from mngr.base import clock
from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

ROW_TYPES = ("host", "release", "released", "release_failed", "rested", "woken")


class RunHost(Struct):
    """A host of a run: `running`, `resting` (stopped, with its files kept), `leaving` or `gone`."""

    provider: str
    state: str = "running"
    hourly_rate: float | None = None  # US dollars per hour
    billed_since: str | None = None  # None while the host costs nothing
    billed_hours: float = 0.0  # hours billed before `billed_since`

    def count_hours(self, until: str | None = None) -> float:
        """Return the hours that the host was billed, until now or until the given time."""
        if self.billed_since is None:
            return self.billed_hours
        end = clock.parse_timestamp(until) if until else time.time()
        return self.billed_hours + max(0.0, end - clock.parse_timestamp(self.billed_since)) / 3600

    def stop_billing(self, stopped_at: str, state: str) -> RunHost:
        """Return the host in a new state in which it costs nothing."""
        return self.replace(state=state, billed_hours=self.count_hours(stopped_at), billed_since=None)


def apply_host_row(host: RunHost | None, row: dict[str, Any]) -> RunHost | None:
    """Return the host after one of its rows, or None when no row has introduced it."""
    kind = row["type"]
    if kind == "host":
        since = row.get("since") or row["at"]
        new_host = RunHost(provider=row["provider"], hourly_rate=row.get("rate"), billed_since=since)
        return new_host.stop_billing(row["until"], "gone") if row.get("until") else new_host
    if host is None:
        return None
    if kind == "release":
        return host.replace(state="leaving")
    if kind == "release_failed":
        return host.replace(state="running")
    if kind == "released":
        return host.stop_billing(row["at"], "gone")
    if kind == "rested":
        return host.stop_billing(row["at"], "resting")
    if kind == "woken" and host.state == "resting":
        return host.replace(state="running", billed_since=row["at"])
    return host


def sum_costs(hosts: Iterable[RunHost]) -> float:
    """Return the cost in US dollars of the hosts that have a price."""
    return sum(host.count_hours() * (host.hourly_rate or 0.0) for host in hosts)


def summarize_costs(hosts: list[RunHost]) -> dict[str, Any]:
    """Return the number of hosts, their hours and their cost, which is None when no host has a price."""
    rated = [host for host in hosts if host.hourly_rate is not None]
    return {
        "made": len(hosts),
        "running": sum(host.billed_since is not None for host in hosts),
        "hours": round(sum(host.count_hours() for host in hosts), 4),
        "cost_usd": round(sum_costs(rated), 6) if rated else None,
    }
