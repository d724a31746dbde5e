"""Agents as they change: a stream per host, a look only at those that something happened to, at all of them now and then."""

from __future__ import annotations

import json
import os
import queue
import threading
import time

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.tail import Tail
from mngr.base import file_descriptors
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentView
    from mngr.host.protocol import Host

RECHECK_SECONDS = 0.1  # seconds until the second look after an event: a state may be written down after what led to it
_MAX_TAILS = 6  # of one host, before they become one
_MAX_PARALLEL_HOSTS = 16  # hosts that are looked at
_DEFAULT_HOST_LIMIT = 50  # hosts that any program may have open files for
_SLOW_HOST_SECONDS = 1.0  # seconds after which a host is not waited for: it may never answer


class WatchUpdate(Struct):
    """What a look showed."""

    agents: list[AgentView] = []
    destroyed: list[str] = []  # ids of agents that were destroyed
    errors: dict[str, MngrError] = {}  # hosts that do not answer


class PendingQuery(Struct):
    """A question to a host that is under way."""

    ids: set[str]  # whom its answer will be about
    repeat_ids: set[str]  # to be asked for once more
    started_at: float


class AgentWatcher:
    """Follows agents until it is closed. `quick` is the least time between two looks at a host, `slow` that without an event.

    Every host is looked at by itself: one that does not answer keeps nobody waiting.
    """

    def __init__(self, ctx: Context, *, quick: float = 0.05, slow: float = 1.0) -> None:
        self._ctx = ctx
        self._quick, self._slow = quick, slow
        self._hosts: dict[str, Host] = {}  # of every agent
        self._tails: dict[Host, list[Tail]] = {}
        self._fresh: set[str] = set()  # not followed yet
        self._changed: set[str] = set()  # to be looked at
        self._again: set[str] = set()  # once more
        self._last: dict[Host, float] = {}  # when a host was looked at
        self._looks: dict[Host, PendingQuery] = {}  # under way
        self._asked: queue.SimpleQueue[tuple[Host, list[str]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Host, list[ObservedAgent] | Exception]] = queue.SimpleQueue()
        self._ready, self._ready_in = os.pipe()
        self._threads = 0

    def add(self, host: Host, agent_id: str) -> None:
        """Follow one more."""
        if agent_id not in self._hosts:
            self._hosts[agent_id] = host
            self._fresh.add(agent_id)
            self._last.setdefault(host, time.monotonic())

    def add_by_name(self, name: str, agent_id: str) -> None:
        """Follow an agent that was there, wherever its name says, and look at it soon: that tells whether it still is. MngrError."""
        if agent_id not in self._hosts:
            place = store.find_host_of_name(self._ctx.home, name) or ("local", "local")
            self.add(self._ctx.get_host(*place), agent_id)
        self.request_update(agent_id)

    def request_update(self, agent_id: str) -> None:
        """Look at one soon, whether something happens to it or not; what was asked before now says nothing of it any more."""
        host = self._hosts.get(agent_id)
        if host is not None:
            self._changed.add(agent_id)
        if host in self._looks:
            self._looks[host].ids.discard(agent_id)

    def remove(self, agent_id: str) -> None:
        """Follow one less."""
        host = self._hosts.pop(agent_id, None)
        if host is not None and host not in self._hosts.values():
            _close_in_background(self._tails.pop(host, []))
            self._last.pop(host, None)
        for some in (self._fresh, self._changed, self._again):
            some.discard(agent_id)

    def wait(self, seconds: float, wake: int | None = None) -> WatchUpdate | None:
        """The next look within so many seconds; None when there was none, or when `wake` has something to read."""
        deadline = time.monotonic() + seconds
        while True:
            self._open_tails()
            if not self._done.empty():
                return self._collect_answers()
            now = time.monotonic()
            due = self._query_due_hosts(now)
            if now >= deadline or self._read_tails(max(0.0, min(due, deadline) - now), wake):
                return None

    def close(self) -> None:
        """Stop following."""
        for tails in self._tails.values():
            _close_in_background(tails)
        self._tails.clear()
        for _ in range(self._threads):
            self._asked.put(None)
        if not self._looks:  # else there may be a late answer
            os.close(self._ready)
            os.close(self._ready_in)

    def _open_tails(self) -> None:
        """A tail for those that have none; the last line comes at once and says that from here on nothing is missed."""
        for host, ids in self._group_by_host(self._fresh).items():
            tails = self._tails.setdefault(host, [])
            if len(self._tails) > _DEFAULT_HOST_LIMIT:
                file_descriptors.raise_open_file_limit()
            if len(tails) >= _MAX_TAILS:
                ids = [i for i, at in self._hosts.items() if at is host]
                _close_in_background(tails)
                tails = self._tails[host] = []
            paths = [os.path.join(host.home.agent_dir(i), "events.jsonl") for i in ids]
            try:
                tails.append(Tail(host, paths, lines=1))
            except MngrError:
                self._changed.update(ids)  # the look will say what is wrong
        self._fresh.clear()

    def _read_tails(self, seconds: float, wake: int | None) -> bool:
        """Note whom lines are about; whether `wake` has something to read."""
        tails = {tail.fd: (host, tail) for host, some in self._tails.items() for tail in some}
        ready = file_descriptors.wait_readable([*tails, self._ready, *([] if wake is None else [wake])], seconds)
        for fd in ready:
            if fd not in tails:
                continue
            host, tail = tails[fd]
            lines = tail.read()
            if lines is None:  # the connection is gone, or what they followed
                self._tails[host].remove(tail)
                tail.close()
                if not self._tails[host]:
                    del self._tails[host]
                self._changed.update(i for i, at in self._hosts.items() if at is host)
            for line in lines or []:
                self._mark_changed(host, line)
        return wake is not None and wake in ready

    def _mark_changed(self, host: Host, line: bytes) -> None:
        """Look at whom a line names; an agent can write anything there, so at all when that says nothing."""
        try:
            named = json.loads(line)["agent"]
        except (ValueError, TypeError, KeyError, RecursionError):
            named = None
        if isinstance(named, str) and self._hosts.get(named) is host:
            self._changed.add(named)
        else:
            self._changed.update(i for i, at in self._hosts.items() if at is host)

    def _query_due_hosts(self, now: float) -> float:
        """Look at the hosts that it is time for; when it is for the next one."""
        due = now + self._slow
        changed, again = self._group_by_host(self._changed), self._group_by_host(self._again)
        busy = sum(now - look.started_at < _SLOW_HOST_SECONDS for look in self._looks.values())
        for host in [host for host in self._last if host not in self._looks]:
            at = self._last[host] + self._slow
            if host in changed:
                at = min(at, self._last[host] + self._quick)
            if host in again:
                at = min(at, self._last[host] + RECHECK_SECONDS)
            if at > now or busy >= _MAX_PARALLEL_HOSTS:
                due = min(due, max(at, now + RECHECK_SECONDS))
                continue
            busy += 1
            some = {*changed.get(host, ()), *again.get(host, ())}
            if now >= self._last[host] + self._slow:
                some = {i for i, where in self._hosts.items() if where is host}
            self._changed -= some
            self._again -= some
            self._looks[host] = PendingQuery(ids=some, repeat_ids=set(changed.get(host, ())), started_at=now)
            self._asked.put((host, sorted(some)))
        while self._threads < len(self._looks):
            self._threads += 1
            threading.Thread(target=self._run_queries, daemon=True).start()
        return due

    def _run_queries(self) -> None:
        while (asked := self._asked.get()) is not None:
            host, ids = asked
            try:
                found: list[ObservedAgent] | Exception = listing.observe_host(self._ctx, host, ids)
            except Exception as error:
                found = error
            self._done.put((host, found))
            os.write(self._ready_in, b".")

    def _collect_answers(self) -> WatchUpdate:
        """What hosts have answered by now."""
        seen: list[AgentView] = []
        gone: list[str] = []
        errors: dict[str, MngrError] = {}
        while not self._done.empty():
            host, found = self._done.get()
            os.read(self._ready, 1)
            look = self._looks.pop(host)
            if host in self._last:
                self._last[host] = time.monotonic()
            if isinstance(found, MngrError):
                errors[host.name] = found
                continue
            if isinstance(found, Exception):
                raise found
            asked = look.ids & set(self._hosts)
            seen += [listing.make_view(s) for s in found if s.id in asked]
            gone += sorted(asked - {s.id for s in found})
            if host not in self._tails:  # it answers again
                self._fresh.update(i for i, at in self._hosts.items() if at is host)
            again = look.repeat_ids | {s.id for s in found if s.state.reason == "settling"}
            self._again |= again & set(self._hosts)
        return WatchUpdate(agents=seen, destroyed=gone, errors=errors)

    def _group_by_host(self, ids: set[str]) -> dict[Host, list[str]]:
        found: dict[Host, list[str]] = {}
        for agent_id in sorted(ids):
            if agent_id in self._hosts:
                found.setdefault(self._hosts[agent_id], []).append(agent_id)
        return found


def _close_in_background(tails: list[Tail]) -> None:
    """Follow no more, and do not wait for that: the end of a connection can take its time."""
    for tail in tails:
        threading.Thread(target=tail.close, daemon=True).start()
