"""Reads the facts about agents that cost calls to hosts: questions, git state, changed lines and cost."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from mngr.agents.inspect import list as listing
from mngr.agents.inspect.needs_from_person import list_answers, read_question
from mngr.api import Fleet
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, AgentView
from mngr.host.protocol import Host
from mngr.overview.agent_cards import AgentFacts, describe_state
from mngr.tmr.commits.clean_untrusted_text import clean_line

_PAUSE_SECONDS = 5.0  # between two reads about the same agent
_BATCH_SIZE = 20  # agents of one host that are read together
_THREADS = 2
_QUESTION_LENGTH = 2000
_SHORTSTAT = re.compile(rb"(?:, (\d{1,9}) insertions?\(\+\))?(?:, (\d{1,9}) deletions?\(-\))?\s*$")


def read_facts(fleet: Fleet, views: list[AgentView]) -> dict[str, AgentFacts]:
    """Return the facts about agents of one host, by id. A fact that mngr cannot read keeps its default."""
    ctx = fleet.context
    try:
        host = ctx.get_host(views[0].provider, views[0].host)
        observed = listing.observe_host(ctx, host, [view.id for view in views])
    except MngrError:
        return {}
    records = {agent.id: agent.record for agent in observed if agent.record is not None}
    present = [view for view in views if view.id in records]
    with_git_state = {view.id: view for view in fleet.add_git_state(present)} if present else {}
    return {view.id: _read_agent(fleet, host, records[view.id], with_git_state[view.id]) for view in present}


def _read_agent(fleet: Fleet, host: Host, record: AgentRecord, view: AgentView) -> AgentFacts:
    """Return the facts about one agent."""
    facts = AgentFacts(
        read_in=describe_state(view),
        answers=list_answers(fleet.context, record, view.state, view.state_reason),
        unpulled=view.unpulled,
        dirty=view.dirty,
    )
    try:
        if view.state in ("WAITING", "PARKED", "FAILED"):
            question = read_question(fleet.context, host, record)
            facts = facts.replace(question=clean_line(question, _QUESTION_LENGTH))
        usage = fleet.add_usage([view])[0].usage or {}
        cost = usage.get("cost_usd")
        facts = facts.replace(cost_usd=cost if isinstance(cost, float) else None)
        if record.base is None:
            return facts
        insertions, deletions = parse_shortstat(fleet.diff(record.id, options=("--shortstat",)))
        facts = facts.replace(insertions=insertions, deletions=deletions)
    except MngrError:
        pass  # The host or the agent is gone by now, or the work dir is no repository.
    return facts


def parse_shortstat(out: bytes) -> tuple[int, int]:
    """Return the inserted and deleted lines that `git diff --shortstat` printed."""
    match = _SHORTSTAT.search(out[-200:])
    return (int(match[1] or 0), int(match[2] or 0)) if match else (0, 0)


class FactReader:
    """Reads facts in the background. `on_facts` and, after a bug, `on_error` run in one of its threads."""

    def __init__(
        self, fleet: Fleet, on_facts: Callable[[dict[str, AgentFacts]], None], on_error: Callable[[Exception], None]
    ) -> None:
        self._fleet = fleet
        self._on_facts, self._on_error = on_facts, on_error
        self._due: dict[str, tuple[float, AgentView]] = {}  # when to read, by id
        self._read_at: dict[str, float] = {}
        self._is_closed = False
        self._changed = threading.Condition()
        for _ in range(_THREADS):
            threading.Thread(target=self._read_until_closed, daemon=True).start()

    def request(self, view: AgentView, *, soon: bool = False) -> None:
        """Read the facts about an agent: at once if `soon`, else at most every few seconds."""
        with self._changed:
            at = time.monotonic() if soon else self._read_at.get(view.id, -_PAUSE_SECONDS) + _PAUSE_SECONDS
            if view.id in self._due:
                at = min(at, self._due[view.id][0])
            self._due[view.id] = at, view
            self._changed.notify()

    def forget(self, agent_id: str) -> None:
        """Read nothing more about an agent."""
        with self._changed:
            self._due.pop(agent_id, None)
            self._read_at.pop(agent_id, None)

    def close(self) -> None:
        """Stop reading. A call that runs now is not interrupted."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _read_until_closed(self) -> None:
        while views := self._wait_for_batch():
            try:
                self._on_facts(read_facts(self._fleet, views))
            except Exception as error:  # One agent's files must not end the thread, which all agents need.
                self._on_error(error)

    def _wait_for_batch(self) -> list[AgentView]:
        """Return agents of one host whose facts are due, the ones that need a person first. Empty when closed."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                due = [view for at, view in self._due.values() if at <= now]
                if due:
                    first = min(due, key=lambda view: view.state not in ("WAITING", "PARKED"))
                    batch = [view for view in due if (view.provider, view.host) == (first.provider, first.host)]
                    batch = sorted(batch, key=lambda view: view.state not in ("WAITING", "PARKED"))[:_BATCH_SIZE]
                    for view in batch:
                        del self._due[view.id]
                        self._read_at[view.id] = now
                    return batch
                next_at = min((at for at, _ in self._due.values()), default=None)
                self._changed.wait(None if next_at is None else next_at - now)
        return []
