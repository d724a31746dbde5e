"""Finds agents that other commands created, by the names in the home."""

from __future__ import annotations

import os
import time
from collections.abc import Collection

from mngr.base.paths import Home
from mngr.host import record_store

_SETTLE_SECONDS = 1.0  # After this time, a further change of the directory gets another time stamp.


class NameDirectory:
    """The names of a home. Reading them again costs nothing while no agent is created, renamed or destroyed."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._stamp: int | None = None  # the time stamp of the directory when its names were read

    def find_new(self, known_ids: Collection[str]) -> list[tuple[str, str]]:
        """Return the name and the id of each agent that is not known, or nothing if no name has changed."""
        try:
            stamp = os.stat(self._home.names).st_mtime_ns
        except OSError:
            return []
        if stamp == self._stamp:
            return []
        self._stamp = stamp if time.time() - stamp / 1e9 > _SETTLE_SECONDS else None
        pairs = [(name, record_store.find_id(self._home, name)) for name in record_store.list_names(self._home)]
        return [(name, agent_id) for name, agent_id in pairs if agent_id is not None and agent_id not in known_ids]
