"""What is written down of a host while it is made or taken away, and what becomes of that when it is cut off."""

from __future__ import annotations

import os

from mngr.base.lock import Lock
from mngr.host import registry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mngr.base.paths import Home

    Facts = dict[str, Any]
    Remove = Callable[[str, Facts], None]

LOCK_COUNT = 1024  # files for the locks of all hosts: those that share one wait for each other
MAX_LOCK_SECONDS = 3600.0  # seconds that another command may hold a host


def host_lock(home: Home, provider: str, host: str) -> Lock:
    """For who makes, starts, stops or takes away a host."""
    import zlib

    number = zlib.crc32(f"{provider} {host}".encode()) % LOCK_COUNT
    return Lock(os.path.join(home.cache, f"host-{number}.lock"), timeout=MAX_LOCK_SECONDS)


def finish_interrupted(home: Home, provider: str, host: str, remove: Remove) -> None:
    """Make an end of a making or taking away that was cut off, for who has the lock: later `gc` would end what is there then."""
    ending = registry.find_facts(home, provider, host, "ending")
    if ending is not None:
        remove(host, ending)
    making = registry.find_facts(home, provider, host, "making")
    if making is not None and registry.find_facts(home, provider, host) is None:
        remove(host, making)
    registry.delete_phases(home, provider, host, "making", "ending")  # also what cannot be read


def build_cleanup(home: Home, provider: str, host: str, phase: str, facts: Facts, remove: Remove) -> Callable[[], None]:
    """The same later, unless somebody has gone on with it by then."""

    def act() -> None:
        with host_lock(home, provider, host):
            if (registry.find_facts(home, provider, host, phase) or {}) == facts:
                finish_interrupted(home, provider, host, remove)

    return act
