"""Locks a host while it is created or destroyed, and finishes such an operation after an interruption."""

from __future__ import annotations

import os

from mngr.base.lock import Lock
from mngr.host import host_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mngr.base.paths import Home
    from mngr.host.host_store import HostFacts

    Remove = Callable[[str, HostFacts], None]

LOCK_COUNT = 1024  # lock files for all hosts; hosts that share a file wait for each other
MAX_LOCK_SECONDS = 3600.0  # the time that another command may hold the lock


def host_lock(home: Home, provider: str, host: str) -> Lock:
    """Return the lock for creating, starting, stopping or destroying a host."""
    import zlib

    number = zlib.crc32(f"{provider} {host}".encode()) % LOCK_COUNT
    return Lock(os.path.join(home.cache, f"host-{number}.lock"), timeout=MAX_LOCK_SECONDS)


def finish_interrupted(home: Home, provider: str, host: str, remove: Remove) -> None:
    """Remove what an interrupted create or destroy of a host left behind.

    The caller holds the lock. A later `gc` could otherwise remove a new host of the same name.
    """
    ending = host_store.find_facts(home, provider, host, "ending")
    if ending is not None:
        remove(host, ending)
    making = host_store.find_facts(home, provider, host, "making")
    if making is not None and host_store.find_facts(home, provider, host) is None:
        remove(host, making)
    host_store.delete_phases(home, provider, host, "making", "ending")  # This also deletes unreadable files.


def build_cleanup(
    home: Home, provider: str, host: str, phase: str, facts: HostFacts | None, remove: Remove
) -> Callable[[], None]:
    """Return a function that finishes the interrupted operation, unless its facts have changed by then."""

    def act() -> None:
        with host_lock(home, provider, host):
            if host_store.find_facts(home, provider, host, phase) == facts:
                finish_interrupted(home, provider, host, remove)

    return act
