"""Agents as they change: a stream per host, a look only at those that something happened to, at all of them now and then."""

from __future__ import annotations

import json
import os
import select
import time

from mngr.errors import MngrError
from mngr.fanout import fanout
from mngr.model import Record
from mngr.ops import list as listing
from mngr.ops.tail import Tail
from mngr.ops.targets import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.host import Host
    from mngr.model import AgentView
    from mngr.ops.context import Context

SOON = 0.1  # seconds until the second look after an event: a state may be written down after what led to it
_MOST_TAILS = 6  # of one host, before they become one
_AT_ONCE = 16  # hosts that are looked at


class Glance(Record):
    """What a look showed."""

    seen: list[AgentView] = []
    gone: list[str] = []  # ids of agents that were destroyed
    errors: dict[str, MngrError] = {}  # hosts that do not answer


class Watch:
    """Follows agents until it is closed. `quick` is the least time between two looks, `slow` that without an event."""

    def __init__(self, ctx: Context, *, quick: float = 0.05, slow: float = 1.0) -> None:
        self._ctx = ctx
        self._quick, self._slow = quick, slow
        self._hosts: dict[str, Host] = {}  # of every agent
        self._tails: dict[Host, list[Tail]] = {}
        self._fresh: set[str] = set()  # not followed yet
        self._changed: set[str] = set()  # to be looked at
        self._again: set[str] = set()  # once more
        self._last = 0.0  # when something was looked at
        self._all_at = time.monotonic() + slow  # when all are looked at

    def add(self, host: Host, agent_id: str) -> None:
        """Follow one more."""
        if agent_id not in self._hosts:
            self._hosts[agent_id] = host
            self._fresh.add(agent_id)

    def follow(self, names: list[str]) -> dict[str, AgentView | MngrError]:
        """Follow agents by name or id; how each is now, or why it cannot be followed."""
        found: dict[str, AgentView | MngrError] = {}
        for name, seen in zip(names, resolve(self._ctx, names), strict=True):
            found[name] = seen if isinstance(seen, MngrError) else listing.view(seen)
            if not isinstance(seen, MngrError):
                self.add(seen.host, seen.id)
        return found

    def touch(self, agent_id: str) -> None:
        """Look at one soon, whether something happens to it or not."""
        if agent_id in self._hosts:
            self._changed.add(agent_id)

    def drop(self, agent_id: str) -> None:
        """Follow one less."""
        host = self._hosts.pop(agent_id, None)
        if host is not None and host not in self._hosts.values():
            for tail in self._tails.pop(host, []):
                tail.close()
        for some in (self._fresh, self._changed, self._again):
            some.discard(agent_id)

    def wait(self, seconds: float, wake: int | None = None) -> Glance | None:
        """The next look within so many seconds; None when there was none, or when `wake` has something to read."""
        deadline = time.monotonic() + seconds
        while True:
            self._follow()
            now = time.monotonic()
            due = min(self._all_at, self._last + self._quick if self._changed else self._all_at)
            if self._again:
                due = min(due, self._last + SOON)
            if not self._hosts:
                due = deadline
            elif now >= due:
                return self._look(now)
            if now >= deadline or self._listen(max(0.0, min(due, deadline) - now), wake):
                return None

    def close(self) -> None:
        """Stop following."""
        for tails in self._tails.values():
            for tail in tails:
                tail.close()
        self._tails.clear()

    def _follow(self) -> None:
        """A tail for those that have none; the last line comes at once and says that from here on nothing is missed."""
        for host, ids in self._by_host(self._fresh).items():
            tails = self._tails.setdefault(host, [])
            if len(tails) >= _MOST_TAILS:
                ids = [i for i, at in self._hosts.items() if at is host]
                for tail in tails:
                    tail.close()
                tails.clear()
            paths = [os.path.join(host.home.agent(i), "events.jsonl") for i in ids]
            try:
                tails.append(Tail(host, paths, lines=1))
            except MngrError:
                self._changed.update(ids)  # the look will say what is wrong
        self._fresh.clear()

    def _listen(self, seconds: float, wake: int | None) -> bool:
        """Note whom lines are about; whether `wake` has something to read."""
        tails = {tail.fd: (host, tail) for host, some in self._tails.items() for tail in some}
        fds = [*tails, *([] if wake is None else [wake])]
        ready = select.select(fds, [], [], seconds)[0]
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
                self._note(host, line)
        return wake is not None and wake in ready

    def _note(self, host: Host, line: bytes) -> None:
        """Look at whom a line names; an agent can write anything there, so at all when that says nothing."""
        try:
            named = json.loads(line)["agent"]
        except (ValueError, TypeError, KeyError, RecursionError):
            named = None
        if isinstance(named, str) and self._hosts.get(named) is host:
            self._changed.add(named)
        else:
            self._changed.update(i for i, at in self._hosts.items() if at is host)

    def _look(self, now: float) -> Glance:
        everything = now >= self._all_at
        wanted = set(self._hosts) if everything else self._changed | self._again
        again = self._changed
        self._changed, self._again = set(), set()
        seen: list[AgentView] = []
        gone: list[str] = []
        errors: dict[str, MngrError] = {}
        places = list(self._by_host(wanted).items())
        answers = fanout(lambda place: listing.look(self._ctx, *place), places, at_once=_AT_ONCE)
        for (host, ids), found in zip(places, answers, strict=True):
            if isinstance(found, MngrError):
                errors[host.name] = found
                continue
            if isinstance(found, Exception):
                raise found
            seen += [listing.view(s) for s in found]
            here = {s.id for s in found}
            gone += [i for i in ids if i not in here]
            if host not in self._tails:  # it answers again
                self._fresh.update(i for i, at in self._hosts.items() if at is host)
        again |= {s.id for s in seen if s.state_reason == "settling"}
        self._again = again & set(self._hosts)
        self._last = time.monotonic()
        if everything:
            self._all_at = self._last + self._slow
        return Glance(seen=seen, gone=gone, errors=errors)

    def _by_host(self, ids: set[str]) -> dict[Host, list[str]]:
        found: dict[Host, list[str]] = {}
        for agent_id in sorted(ids):
            if agent_id in self._hosts:
                found.setdefault(self._hosts[agent_id], []).append(agent_id)
        return found
