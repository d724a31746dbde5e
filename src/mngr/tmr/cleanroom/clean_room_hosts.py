"""The hosts that a provider creates for clean rooms: their creation, their cost and their end."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.host.protocol import WaitingProvider
from mngr.mapreduce.hosts.pool import find_host_provider, find_hourly_rate
from mngr.mapreduce.journal.host_rows import NewHostRow

_WAIT_SECONDS = 5.0  # a host whose creation takes longer waits for capacity
_REPORT_SECONDS = 60.0  # a run can lose this much of the cost of a host when it is killed


class RoomHosts:
    """Gives each clean room of one pool a host, by its number, and destroys the hosts."""

    def __init__(self, fleet: Fleet, on: str, prefix: str) -> None:
        """Prepare hosts for the host part `on` of an address. Their names begin with `prefix`."""
        self._fleet, self._on, self._prefix = fleet, on, prefix
        # The provider that creates the hosts, or an empty text when all clean rooms share one host.
        self.provider = find_host_provider(fleet.context, on) or ""
        self._hourly_rate = find_hourly_rate(fleet.context, self.provider) if self.provider else None
        self._tag = os.urandom(2).hex()  # a host of an earlier process is never used again
        self._since: dict[str, str] = {}  # when the creation of each existing host began
        self._creating: dict[str, float] = {}  # when the creation of an incomplete host began, by the monotonic clock
        self._rows: dict[str, NewHostRow] = {}  # for the journal, by host
        self._reported_at = time.monotonic()
        self._changed = threading.Lock()

    @contextlib.contextmanager
    def create_or_use(self, number: int) -> Iterator[str]:
        """Yield the host part of the address for the clean room with this number, whose creation also creates the host."""
        host = self._get_host(number)
        if not self.provider or host in self._since:
            yield self._on if not self.provider else f"@{host}.{self.provider}"
            return
        with self._changed:
            self._since[host], self._creating[host] = time_format.format_timestamp(), time.monotonic()
        try:
            yield f"@{host}.{self.provider}"
        except BaseException:
            if host not in self._list_existing():
                self._since.pop(host, None)
            raise
        finally:
            self._creating.pop(host, None)

    @property
    def has_host(self) -> bool:
        """True when a created host is complete."""
        return len(self._since) > len(self._creating)

    @property
    def is_waiting_for_capacity(self) -> bool:
        """True while the provider does not create a host quickly. The set-up on a created host does not count."""
        latest = time.monotonic() - _WAIT_SECONDS
        late = {host for host, began in list(self._creating.items()) if began < latest}
        return bool(late) and not late <= self._list_existing()

    def stop_creating(self) -> None:
        """Let the creation of hosts fail that are not complete yet."""
        for host in list(self._creating):
            provider = self._fleet.context.get_provider(self.provider)
            if isinstance(provider, WaitingProvider):
                with contextlib.suppress(MngrError):
                    provider.cancel_create(host)

    def list_new_rows(self) -> list[NewHostRow]:
        """Return rows for the journal: for how long hosts were used so far. For an existing host, one a minute.

        A later row of a host replaces the earlier one.
        """
        with self._changed:
            if time.monotonic() - self._reported_at > _REPORT_SECONDS:
                self._add_rows(list(self._since))
                self._reported_at = time.monotonic()
            rows, self._rows = list(self._rows.values()), {}
            return rows

    def _add_rows(self, hosts: list[str]) -> None:
        provider, rate, now = self.provider, self._hourly_rate, time_format.format_timestamp()
        for host in hosts:
            since = self._since[host]
            self._rows[host] = NewHostRow(host=host, provider=provider, since=since, until=now, rate=rate)

    def remove_leftovers(self, prefixes: tuple[str, ...]) -> None:
        """Destroy the hosts that a killed process left: those whose names begin with one of the prefixes."""
        if self.provider:
            self._destroy({host for host in self._list_existing() if host.startswith(prefixes)})

    def destroy(self, numbers: list[int]) -> None:
        """Destroy the hosts of these clean rooms, as far as they exist."""
        self._destroy_own([host for host in map(self._get_host, numbers) if host in self._since])

    def release(self) -> None:
        """Destroy the hosts of this process."""
        self._destroy_own(list(self._since))

    def _destroy_own(self, hosts: list[str]) -> None:
        if not hosts:
            return
        self._destroy(set(hosts) & self._list_existing())
        with self._changed:
            self._add_rows([host for host in hosts if host in self._since])
            for host in hosts:
                self._since.pop(host, None)

    def _get_host(self, number: int) -> str:
        return f"{self._prefix}-{self._tag}-{number}"

    def _list_existing(self) -> set[str]:
        return set(self._fleet.context.get_provider(self.provider).list())

    def _destroy(self, hosts: set[str]) -> None:
        if hosts:
            with contextlib.suppress(MngrError):  # `mngr tmr clean` destroys the host then
                self._fleet.destroy([f"@{host}.{self.provider}" for host in sorted(hosts)], force=True)
