"""Watches agents for changes. One stream per host reports events; regular checks find changes without an event."""

from __future__ import annotations

import os
import queue
import threading
import time

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.follow_files import Tail
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.python_process import many_open_files
from mngr.base.untrusted_json import parse_json
from mngr.host import record_store

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mngr.agents.context import Context
    from mngr.agents.inspect.list import ObservedAgent
    from mngr.base.model import AgentView
    from mngr.host.protocol import Host

# A second check follows this long after an event, because the state may be written after the event.
RECHECK_SECONDS = 0.1
_MAX_TAILS = 6  # on one host; more are merged into one
_MAX_PARALLEL_HOSTS = 16  # hosts that are queried at the same time
_DEFAULT_HOST_LIMIT = 50  # With more hosts, the process needs a higher limit of open files.
_SLOW_HOST_SECONDS = 1.0  # A slower query no longer counts as running, because it may never end.


class WatchUpdate(Struct):
    """The changes that the watcher found."""

    agents: list[AgentView] = []
    destroyed: list[str] = []  # ids of agents that were destroyed
    errors: dict[str, MngrError] = {}  # by host, for hosts that do not answer
    with_events: frozenset[str] = frozenset()  # ids of agents that the watcher queried because of an event


class PendingQuery(Struct):
    """A query to a host that has not been answered yet."""

    ids: set[str]  # agents that the answer is about
    repeat_ids: set[str]  # agents to query once more afterwards
    started_at: float


class AgentWatcher:
    """Follows agents until it is closed.

    It queries a host at most every `quick` seconds, and without events every `slow` seconds. Each host has its own
    queries, so a host that does not answer delays no other host.
    """

    def __init__(self, ctx: Context, *, quick: float = 0.05, slow: float = 1.0) -> None:
        self._ctx = ctx
        self._quick, self._slow = quick, slow
        self._hosts: dict[str, Host] = {}  # by agent id
        self._tails: dict[Host, list[Tail]] = {}
        self._fresh: set[str] = set()  # agents without a tail
        self._changed: set[str] = set()  # agents to query
        self._again: set[str] = set()  # agents to query a second time
        self._last: dict[Host, float] = {}  # time of each host's last query
        self._looks: dict[Host, PendingQuery] = {}
        self._asked: queue.SimpleQueue[tuple[Host, list[str]] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Host, list[ObservedAgent] | Exception]] = queue.SimpleQueue()
        self._ready, self._ready_in = os.pipe()
        self._threads = 0

    def add(self, host: Host, agent_id: str) -> None:
        """Follow an agent."""
        if agent_id not in self._hosts:
            self._hosts[agent_id] = host
            self._fresh.add(agent_id)
            self._last.setdefault(host, time.monotonic())

    def add_by_name(self, name: str, agent_id: str) -> None:
        """Follow the agent on the host that its name belongs to, and query it soon. Raise MngrError."""
        if agent_id not in self._hosts:
            host_key = record_store.find_host_of_name(self._ctx.home, name) or ("local", "local")
            self.add(self._ctx.get_host(*host_key), agent_id)
        self.request_update(agent_id)

    def request_update(self, agent_id: str) -> None:
        """Query an agent soon, with or without an event, and ignore the answer to an earlier query about it."""
        host = self._hosts.get(agent_id)
        if host is not None:
            self._changed.add(agent_id)
        if host in self._looks:
            self._looks[host].ids.discard(agent_id)

    def remove(self, agent_id: str) -> None:
        """Stop following an agent."""
        host = self._hosts.pop(agent_id, None)
        if host is not None and host not in self._hosts.values():
            _close_in_background(self._tails.pop(host, []))
            self._last.pop(host, None)
        for ids in (self._fresh, self._changed, self._again):
            ids.discard(agent_id)

    def wait(self, seconds: float, wake: int | None = None) -> WatchUpdate | None:
        """Return the next update, or None after this many seconds or when `wake` has data to read."""
        deadline = time.monotonic() + seconds
        while True:
            self._open_tails()
            if not self._done.empty():
                return self._collect_answers()
            now = time.monotonic()
            next_query = self._query_due_hosts(now)
            if now >= deadline or self._read_tails(max(0.0, min(next_query, deadline) - now), wake):
                return None

    def close(self) -> None:
        """Stop following all agents."""
        for tails in self._tails.values():
            _close_in_background(tails)
        self._tails.clear()
        for _ in range(self._threads):
            self._asked.put(None)
        if not self._looks:  # A late answer still needs the pipe.
            os.close(self._ready)
            os.close(self._ready_in)

    def _open_tails(self) -> None:
        """Open tails for new agents. The last line arrives at once and shows that no later event will be missed."""
        for host, ids in self._group_by_host(self._fresh).items():
            tails = self._tails.setdefault(host, [])
            if len(self._tails) > _DEFAULT_HOST_LIMIT:
                many_open_files.raise_open_file_limit()
            if len(tails) >= _MAX_TAILS:
                ids = [i for i, agent_host in self._hosts.items() if agent_host is host]
                _close_in_background(tails)
                tails = self._tails[host] = []
            paths = [os.path.join(host.home.agent_dir(i), "events.jsonl") for i in ids]
            try:
                tails.append(Tail(host, paths, lines=1))
            except MngrError:
                self._changed.update(ids)  # The query will report the error.
        self._fresh.clear()

    def _read_tails(self, seconds: float, wake: int | None) -> bool:
        """Mark the agents that new lines are about. Return True when `wake` has data to read."""
        tails = {tail.fd: (host, tail) for host, host_tails in self._tails.items() for tail in host_tails}
        ready = many_open_files.wait_readable([*tails, self._ready, *([] if wake is None else [wake])], seconds)
        for fd in ready:
            if fd not in tails:
                continue
            host, tail = tails[fd]
            lines = tail.wait_for_lines()
            if lines is None:  # The connection is lost, or the files are gone.
                self._tails[host].remove(tail)
                tail.close()
                if not self._tails[host]:
                    del self._tails[host]
                self._changed.update(i for i, agent_host in self._hosts.items() if agent_host is host)
            for line in lines or []:
                self._mark_changed(host, line)
        return wake is not None and wake in ready

    def _mark_changed(self, host: Host, line: bytes) -> None:
        """Mark the agent that a line names. Without a valid name mark all, since an agent can write anything there."""
        try:
            agent_id = parse_json(line)["agent"]
        except (ValueError, TypeError, KeyError):
            agent_id = None
        if isinstance(agent_id, str) and self._hosts.get(agent_id) is host:
            self._changed.add(agent_id)
        else:
            self._changed.update(i for i, agent_host in self._hosts.items() if agent_host is host)

    def _query_due_hosts(self, now: float) -> float:
        """Start the queries that are due, and return the time of the next one."""
        next_due = now + self._slow
        changed, again = self._group_by_host(self._changed), self._group_by_host(self._again)
        busy = sum(now - query.started_at < _SLOW_HOST_SECONDS for query in self._looks.values())
        for host in [host for host in self._last if host not in self._looks]:
            due_at = self._last[host] + self._slow
            if host in changed:
                due_at = min(due_at, self._last[host] + self._quick)
            if host in again:
                due_at = min(due_at, self._last[host] + RECHECK_SECONDS)
            if due_at > now or busy >= _MAX_PARALLEL_HOSTS:
                next_due = min(next_due, max(due_at, now + RECHECK_SECONDS))
                continue
            busy += 1
            ids = {*changed.get(host, ()), *again.get(host, ())}
            if now >= self._last[host] + self._slow:
                ids = {i for i, agent_host in self._hosts.items() if agent_host is host}
            self._changed -= ids
            self._again -= ids
            self._looks[host] = PendingQuery(ids=ids, repeat_ids=set(changed.get(host, ())), started_at=now)
            self._asked.put((host, sorted(ids)))
        while self._threads < len(self._looks):
            self._threads += 1
            threading.Thread(target=self._run_queries, daemon=True).start()
        return next_due

    def _run_queries(self) -> None:
        """Run queries in a thread until it receives None."""
        while (request := self._asked.get()) is not None:
            host, ids = request
            try:
                answer: list[ObservedAgent] | Exception = listing.observe_host(self._ctx, host, ids)
            except Exception as error:
                answer = error
            self._done.put((host, answer))
            os.write(self._ready_in, b".")

    def _collect_answers(self) -> WatchUpdate:
        """Return an update from the answers that have arrived."""
        views: list[AgentView] = []
        destroyed: list[str] = []
        errors: dict[str, MngrError] = {}
        with_events: set[str] = set()
        while not self._done.empty():
            host, answer = self._done.get()
            os.read(self._ready, 1)
            query = self._looks.pop(host)
            if host in self._last:
                self._last[host] = time.monotonic()
            if isinstance(answer, MngrError):
                errors[host.name] = answer
                continue
            if isinstance(answer, Exception):
                raise answer
            asked_ids = query.ids & set(self._hosts)
            with_events |= query.repeat_ids & asked_ids
            views += [listing.make_view(agent) for agent in answer if agent.id in asked_ids]
            destroyed += sorted(asked_ids - {agent.id for agent in answer})
            if host not in self._tails:  # The host answers again, so its tails can be opened.
                self._fresh.update(i for i, agent_host in self._hosts.items() if agent_host is host)
            repeat_ids = query.repeat_ids | {agent.id for agent in answer if agent.state.reason == "settling"}
            self._again |= repeat_ids & set(self._hosts)
        return WatchUpdate(agents=views, destroyed=destroyed, errors=errors, with_events=frozenset(with_events))

    def _group_by_host(self, ids: set[str]) -> dict[Host, list[str]]:
        groups: dict[Host, list[str]] = {}
        for agent_id in sorted(ids):
            if agent_id in self._hosts:
                groups.setdefault(self._hosts[agent_id], []).append(agent_id)
        return groups


def _close_in_background(tails: list[Tail]) -> None:
    """Close tails without waiting, because the end of a connection can take long."""
    for tail in tails:
        threading.Thread(target=tail.close, daemon=True).start()
