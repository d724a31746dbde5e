"""The hosts that a provider creates for clean rooms. They stay until the pool of clean rooms is closed."""

from __future__ import annotations

import contextlib
import os

from mngr.api import Fleet
from mngr.base.errors import MngrError


class RoomHosts:
    """Gives each clean room of one pool a host, by its number, and destroys the hosts."""

    def __init__(self, fleet: Fleet, on: str, prefix: str) -> None:
        """Prepare hosts for the host part `on` of an address. Their names begin with `prefix`."""
        self._fleet, self._on, self._prefix = fleet, on, prefix
        name = on.removeprefix("@.") if on.startswith("@.") else ""
        # The provider that creates the hosts, or an empty text when all clean rooms share one host.
        self.provider = name if name and fleet.context.get_provider(name).can_create_hosts else ""
        self._tag = os.urandom(2).hex()  # a host of an earlier process is never used again
        self._used: set[str] = set()  # hosts that may exist

    def choose_address(self, number: int) -> str:
        """Return the host part of the address for the clean room with this number."""
        if not self.provider:
            return self._on
        host = f"{self._prefix}-{self._tag}-{number}"
        self._used.add(host)
        return f"@{host}.{self.provider}"

    def remove_leftovers(self, prefixes: tuple[str, ...]) -> None:
        """Destroy the hosts that a killed process left: those whose names begin with one of the prefixes."""
        if self.provider:
            hosts = self._fleet.context.get_provider(self.provider).list()
            self._destroy({host for host in hosts if host.startswith(prefixes)})

    def release(self) -> None:
        """Destroy the hosts of this process."""
        if self.provider:
            self._destroy(self._used & set(self._fleet.context.get_provider(self.provider).list()))
        self._used.clear()

    def _destroy(self, hosts: set[str]) -> None:
        if hosts:
            with contextlib.suppress(MngrError):  # `mngr tmr clean` destroys the host then
                self._fleet.destroy([f"@{host}.{self.provider}" for host in sorted(hosts)], force=True)
