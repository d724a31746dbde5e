"""Decides which host the next agent gets. Several agents share a host, and a new host is added when all are full."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable


class PooledHost:
    """A host of the run, possibly not created yet. The first holder of `creation_lock` creates it; the others wait."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self.creation_began_at: str | None = None  # when its creation began
        self.build_options: dict[str, str] = {}  # the options to create it with
        self.creation_lock = threading.Lock()
        self.slugs: set[str] = set()  # tasks whose agents are on the host or will be


class HostSlots:
    """Assigns hosts to tasks, in the scheduler's thread. A host takes `per_host` agents, or one when that is 0."""

    def __init__(self, per_host: int) -> None:
        self._per_host = per_host
        self._hosts: list[PooledHost] = []

    def assign_host(self, slug: str, unreachable: Collection[str] = ()) -> PooledHost:
        """Return a host for the task's agent: one with a free slot that answers, else a new one."""
        for host in self._hosts:
            if host.name in unreachable:
                host.slugs.discard(slug)
            elif slug in host.slugs or len(host.slugs) < self._per_host:
                host.slugs.add(slug)
                return host
        new_host = PooledHost()
        new_host.slugs.add(slug)
        self._hosts.append(new_host)
        return new_host

    def count_placeable(self, wanted: int, unreachable: Collection[str]) -> int:
        """Return how many agents can get a host now. Free slots on an unreachable host are waited for, not replaced."""
        free_slots = {True: 0, False: 0}
        for host in self._hosts:
            # Do not wait for an empty unreachable host: nothing watches it, so its answer would go unnoticed.
            if host.slugs or host.name not in unreachable:
                free_slots[host.name in unreachable] += max(0, self._per_host - len(host.slugs))
        if all(host.name in unreachable for host in self._hosts):
            return wanted
        return min(wanted, free_slots[False]) + max(0, wanted - free_slots[False] - free_slots[True])

    def find_host(self, slug: str) -> str | None:
        """Return the name of the task's host, or None while it has none."""
        return next((host.name for host in self._hosts if slug in host.slugs), None)

    def record_arrival(self, slug: str, host: str) -> PooledHost:
        """Record that the task's agent is on this host and on no other. Return the pooled host."""
        for candidate in self._hosts:
            if candidate.name != host:
                candidate.slugs.discard(slug)
        existing = next((candidate for candidate in self._hosts if candidate.name == host), None)
        pooled_host = existing or PooledHost(host)
        pooled_host.slugs.add(slug)
        if existing is None:
            self._hosts.append(pooled_host)
        return pooled_host

    def add_host(self, host: str, slugs: Iterable[str]) -> None:
        """Add a host that already exists."""
        pooled_host = PooledHost(host)
        pooled_host.slugs.update(slugs)
        self._hosts.append(pooled_host)

    def retain_tasks(self, slugs: Collection[str]) -> None:
        """Free the slots of all other tasks."""
        for host in self._hosts:
            host.slugs.intersection_update(slugs)
        self._hosts = [host for host in self._hosts if host.slugs or host.name is not None]

    def take_idle_hosts(self, wanted: int, unreachable: Collection[str] = ()) -> list[str]:
        """Remove and return the hosts without agents, except as many as the wanted number of agents needs."""
        free_slots = sum(max(0, self._per_host - len(host.slugs)) for host in self._hosts if host.slugs)
        keep_count = -(-max(0, wanted - free_slots) // self._per_host) if self._per_host else 0
        idle = [host for host in self._hosts if not host.slugs and host.name is not None]
        idle = sorted(idle, key=lambda host: host.name in unreachable)[keep_count:]
        self._hosts = [host for host in self._hosts if host not in idle]
        return [str(host.name) for host in idle]
