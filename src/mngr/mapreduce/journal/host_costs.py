"""Tracks the hosts of a run: how long each one was billed and what that costs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping

from mngr.base import time_format
from mngr.base.model import Struct


class RunHost(Struct):
    """A host of a run: `running`, `stopped` (with its files kept), `leaving` or `gone`."""

    provider: str
    state: str = "running"
    hourly_rate: float | None = None  # US dollars per hour
    billed_since: str | None = None  # None while the host costs nothing
    billed_hours: float = 0.0  # hours billed before `billed_since`

    def count_hours(self, until: str | None = None) -> float:
        """Return the hours that the host was billed, until now or until the given time."""
        if self.billed_since is None:
            return self.billed_hours
        end = time_format.parse_timestamp(until) if until else time.time()
        return self.billed_hours + max(0.0, end - time_format.parse_timestamp(self.billed_since)) / 3600

    def stop_billing(self, stopped_at: str, state: str) -> RunHost:
        """Return the host in a new state in which it costs nothing."""
        return self.replace(state=state, billed_hours=self.count_hours(stopped_at), billed_since=None)


class HostTable(Mapping[str, RunHost]):
    """The hosts of a run by name. The sum of their costs does not slow down with the number of released hosts."""

    def __init__(self, hosts: Mapping[str, RunHost] | None = None) -> None:
        self._hosts: dict[str, RunHost] = {}
        self._billed: set[str] = set()  # hosts whose cost still grows
        self._ended_cost = 0.0  # US dollars of all other hosts
        for name, host in (hosts or {}).items():
            self.put(name, host)

    def __repr__(self) -> str:
        return f"HostTable({self._hosts!r})"

    def __getitem__(self, name: str) -> RunHost:
        return self._hosts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._hosts)

    def __len__(self) -> int:
        return len(self._hosts)

    def put(self, name: str, host: RunHost) -> None:
        """Add or replace a host. Only the replay of the journal does this."""
        if name in self._hosts and name not in self._billed:
            self._ended_cost -= sum_costs([self._hosts[name]])
        self._hosts[name] = host
        if host.billed_since is None:
            self._billed.discard(name)
            self._ended_cost += sum_costs([host])
        else:
            self._billed.add(name)

    def sum_costs(self) -> float:
        """Return the cost in US dollars of the hosts that have a price."""
        return self._ended_cost + sum_costs(self._hosts[name] for name in self._billed)


class HostCosts(Struct):
    """The hosts of a run and their cost so far."""

    made: int
    running: int
    hours: float
    cost_usd: float | None  # None when no host has a price


def sum_costs(hosts: Iterable[RunHost]) -> float:
    """Return the cost in US dollars of the hosts that have a price."""
    return sum(host.count_hours() * (host.hourly_rate or 0.0) for host in hosts)


def summarize_costs(hosts: Collection[RunHost]) -> HostCosts:
    """Return the number of hosts, their hours and their cost."""
    rated = [host for host in hosts if host.hourly_rate is not None]
    return HostCosts(
        made=len(hosts),
        running=sum(host.billed_since is not None for host in hosts),
        hours=round(sum(host.count_hours() for host in hosts), 4),
        cost_usd=round(sum_costs(rated), 6) if rated else None,
    )
