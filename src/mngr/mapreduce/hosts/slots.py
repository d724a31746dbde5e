"""Which host the next agent goes to, where a provider makes hosts: several share one, and there is one more when all are full."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable


class PooledHost:
    """A host of the run, or one that is to be: the first who holds `making` makes it, and all others wait and share it."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.creation_began_at: str | None = None  # when its making began
        self.build_options: dict[str, str] = {}  # what it is to be made from
        self.creation_lock = threading.Lock()
        self.slugs: set[str] = set()  # tasks whose agents are on it, or are to be


class HostSlots:
    """Gives out places; used by the one thread that decides. At most `per_host` on each, or each has its own when that is 0."""

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self._hosts: list[PooledHost] = []

    def assign_host(self, slug: str, away: Collection[str] = ()) -> PooledHost:
        """A place for the agent of a task: where there is room, else on a new host; not on one that is away."""
        for one in self._hosts:
            if one.name in away:
                one.slugs.discard(slug)
            elif slug in one.slugs or len(one.slugs) < self._per_host:
                one.slugs.add(slug)
                return one
        made = PooledHost()
        made.slugs.add(slug)
        self._hosts.append(made)
        return made

    def count_placeable(self, wanted: int, away: Collection[str]) -> int:
        """How many of so many can go somewhere now: room on a host that is away is waited for, and no other is made for it."""
        room = {True: 0, False: 0}
        for one in self._hosts:
            if one.slugs or one.name not in away:  # nobody would hear it answer again
                room[one.name in away] += max(0, self._per_host - len(one.slugs))
        if all(one.name in away for one in self._hosts):
            return wanted
        return min(wanted, room[False]) + max(0, wanted - room[False] - room[True])

    def find_host(self, slug: str) -> str | None:
        """The host of a task's place, once it has a name."""
        return next((one.name for one in self._hosts if slug in one.slugs), None)

    def record_arrival(self, slug: str, host: str) -> PooledHost:
        """The agent of a task is on this host, and nowhere else; its mooring."""
        for one in self._hosts:
            if one.name != host:
                one.slugs.discard(slug)
        known = next((one for one in self._hosts if one.name == host), None)
        mooring = known or PooledHost(host)
        mooring.slugs.add(slug)
        if known is None:
            self._hosts.append(mooring)
        return mooring

    def add_host(self, host: str, slugs: Iterable[str]) -> None:
        """A host that is there from before."""
        one = PooledHost(host)
        one.slugs.update(slugs)
        self._hosts.append(one)

    def retain_tasks(self, slugs: Collection[str]) -> None:
        """All other tasks need no place any more."""
        for one in self._hosts:
            one.slugs.intersection_update(slugs)
        self._hosts = [one for one in self._hosts if one.slugs or one.name is not None]

    def take_idle_hosts(self, wanted: int, away: Collection[str] = ()) -> list[str]:
        """Hosts that nobody is on, without those that so many more agents could go to; they are not given out again."""
        room = sum(max(0, self._per_host - len(one.slugs)) for one in self._hosts if one.slugs)
        kept = -(-max(0, wanted - room) // self._per_host) if self._per_host else 0
        idle = [one for one in self._hosts if not one.slugs and one.name is not None]
        idle = sorted(idle, key=lambda one: one.name in away)[kept:]
        self._hosts = [one for one in self._hosts if one not in idle]
        return [str(one.name) for one in idle]
