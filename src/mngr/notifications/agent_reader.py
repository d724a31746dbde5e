"""Finds what agents need, from their new events and their present state. Each host has its own thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping

from mngr.agents.context import Context
from mngr.agents.inspect import list as listing
from mngr.agents.inspect.list import ObservedAgent
from mngr.agents.inspect.needs_from_person import find_question, list_answers, read_last_words
from mngr.base import shell, time_format
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, AgentView, Struct
from mngr.host.protocol import Host
from mngr.notifications.event_rows import (
    READY,
    RUNNING,
    NewRows,
    StateChange,
    compute_id,
    find_changes,
    read_new_rows,
    select_recent,
)
from mngr.notifications.notification import Notification, build_agent_notification, classify_state
from mngr.notifications.outbox import Cursor, Outbox

_BATCH_SIZE = 50  # agents of one host that are read together
_RETRY_SECONDS = 2.0  # after a host did not answer
_RECHECK_SECONDS = 0.4
# A program may write its state before the event that explains it, or the other way around.
_SETTLE_SECONDS = 1.5
_MAX_PER_AGENT, _PERIOD_SECONDS = 200, 600.0  # An agent that writes its own events must not flood a person.
_LIVE_STATES = ("STARTING", "RUNNING")


class Reading(Struct):
    """The result of reading one agent. `recheck_in` is the delay before the next reading, or None if this one is final."""

    cursor: Cursor | None
    changes: tuple[StateChange, ...] = ()
    recheck_in: float | None = None


class AgentReader:
    """Reads agents on request. `on_new` receives the new notifications and saves them with the cursor."""

    def __init__(
        self,
        ctx: Context,
        outbox: Outbox,
        *,
        max_age: float,
        on_new: Callable[[str, Cursor, list[Notification]], None],
        report: Callable[[str], None],
    ) -> None:
        self._ctx = ctx
        self._outbox = outbox
        self._max_age = max_age
        self._on_new = on_new
        self._report = report
        self._unexplained: dict[str, tuple[str, float]] = {}  # by agent: a state without an event, and since when
        self._recent: dict[str, list[float]] = {}  # by agent: when it caused notifications
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _HostQueue] = {}
        self.error: BaseException | None = None  # why a thread ended

    def request(self, view: AgentView) -> None:
        """Read an agent soon. Several threads may call this. A host that is gone cannot be read, so there only the view counts."""
        if view.host_state == "GONE":
            self._tell_of_lost_host(view)
        elif view.host_state == "RUNNING":
            key = view.provider, view.host
            with self._lock:
                if key not in self._queues:
                    self._queues[key] = _HostQueue(lambda ids: self._read_host(key, ids), self._fail)
                self._queues[key].add(view.id, 0.0)

    def close(self) -> None:
        """Read nothing more."""
        with self._lock:
            for host_queue in self._queues.values():
                host_queue.close()

    def _fail(self, error: BaseException) -> None:
        self.error = error

    def _tell_of_lost_host(self, view: AgentView) -> None:
        cursor = self._outbox.find_cursor(view.id) or Cursor()
        if view.state != "FAILED" or (cursor.state, cursor.reason) == (view.state, view.state_reason):
            return
        at = time_format.format_timestamp()
        notification_id = compute_id(view.id, cursor.offset, b"host gone")
        commands = (f"mngr explain {view.name}{self._format_home()}",)
        notification = build_agent_notification(notification_id, at, view, "", commands)
        new_cursor = cursor.replace(state=view.state, reason=view.state_reason, is_from_event=False)
        self._on_new(view.id, new_cursor, [notification])

    def _read_host(self, key: tuple[str, str], ids: list[str]) -> dict[str, float]:
        """Read agents of one host, and return for each agent to read again in how many seconds."""
        try:
            host = self._ctx.get_host(*key)
            cursors = {agent_id: self._outbox.find_cursor(agent_id) for agent_id in ids}
            rows = read_new_rows(host, {i: cursor.offset if cursor else 0 for i, cursor in cursors.items()})
            agents = {agent.id: agent for agent in listing.observe_host(self._ctx, host, ids)}
        except MngrError:  # The follower of the overview says so on standard error.
            return dict.fromkeys(ids, _RETRY_SECONDS)
        again: dict[str, float] = {}
        for agent_id, agent in agents.items():
            cursor = cursors[agent_id]
            offset = cursor.offset if cursor else 0
            new_rows = rows.get(agent_id) or NewRows(offset=offset, size=offset, data=b"")  # It may delete its events.
            recheck_in = self._read_agent(host, agent, new_rows, cursor)
            if recheck_in is not None:
                again[agent_id] = recheck_in
        return again

    def _read_agent(self, host: Host, agent: ObservedAgent, rows: NewRows, cursor: Cursor | None) -> float | None:
        """Save what is new about an agent. Return in how many seconds to read it again, or None."""
        record = agent.record
        if record is None or agent.state.reason in ("destroying", "destroy_interrupted"):
            return None
        view = listing.make_view(agent)
        is_old = (view.created_at or "") < self._outbox.first_started_at if cursor is None else cursor.is_old
        reading = self._interpret(view, rows, cursor, is_old=is_old)
        if reading.cursor is None:
            return reading.recheck_in
        oldest = time_format.format_timestamp(time.time() - self._max_age)
        oldest = max(oldest, self._outbox.first_started_at) if is_old else oldest
        needs = [c for c in select_recent(reading.changes, oldest) if classify_state(c.state, c.reason)]
        try:
            notifications = self._build_notifications(host, record, view, self._limit(view, needs))
        except MngrError:
            return _RETRY_SECONDS
        self._on_new(view.id, reading.cursor, notifications)
        return reading.recheck_in

    def _interpret(self, view: AgentView, rows: NewRows, cursor: Cursor | None, *, is_old: bool) -> Reading:
        """Return the changes that the rows and the present state show, and the cursor after them."""
        known = cursor or Cursor()
        if not known.is_from_event and known.state is not None and view.state in _LIVE_STATES:
            known = known.replace(state=RUNNING, reason=None)
        changes, end = find_changes(view.id, rows, known.state)
        is_complete = end >= rows.size
        if changes and not changes[-1].is_certain and is_complete:
            decided = self._decide(changes[-1], view)
            if decided is None:
                return Reading(cursor=None, recheck_in=_RECHECK_SECONDS)
            changes[-1] = decided
        last_state, last_reason = (changes[-1].state, changes[-1].reason) if changes else (known.state, known.reason)
        is_from_event = known.is_from_event if not changes else True
        new_cursor = Cursor(offset=end, state=last_state, reason=last_reason, is_from_event=is_from_event)
        if not is_complete:
            has_moved = end > rows.offset
            new_cursor = new_cursor.replace(is_old=is_old)
            return Reading(cursor=new_cursor, changes=tuple(changes), recheck_in=0.0 if has_moved else _RECHECK_SECONDS)
        if is_explained(view, last_state, last_reason):
            self._unexplained.pop(view.id, None)
            return Reading(cursor=new_cursor, changes=tuple(changes))
        if not is_old:
            key = f"{view.state} {view.state_reason}"
            known_key, since = self._unexplained.setdefault(view.id, (key, time.monotonic()))
            if known_key != key or time.monotonic() < since + _SETTLE_SECONDS:
                self._unexplained[view.id] = key, since if known_key == key else time.monotonic()
                return Reading(cursor=new_cursor, changes=tuple(changes), recheck_in=_RECHECK_SECONDS)
            self._unexplained.pop(view.id)
            changes.append(_make_change(view, end))
        new_cursor = new_cursor.replace(state=view.state, reason=view.state_reason, is_from_event=False)
        return Reading(cursor=new_cursor, changes=tuple(changes))

    def _decide(self, change: StateChange, view: AgentView) -> StateChange | None:
        """Return what the last event means, given the present state, or None when the state is not known yet."""
        has_ended = change.state in ("FAILED", "DONE")
        if has_ended and view.state in ("FAILED", "DONE", "STOPPED"):
            return change if view.state != "STOPPED" else change.replace(state="STOPPED", reason=None)
        if not has_ended:
            if view.state in ("WAITING", "PARKED"):
                return change.replace(state=view.state, reason=view.state_reason)
            return change.replace(state=RUNNING, reason=None) if view.state in _LIVE_STATES else change
        key = f"end at {change.offset}"
        known_key, since = self._unexplained.setdefault(view.id, (key, time.monotonic()))
        if known_key != key:
            self._unexplained[view.id] = key, time.monotonic()
            return None
        return change if time.monotonic() > since + _SETTLE_SECONDS else None

    def _limit(self, view: AgentView, needs: list[StateChange]) -> list[StateChange]:
        """Return the changes that the agent may still cause in this period, and report the others."""
        now = time.monotonic()
        recent = [at for at in self._recent.get(view.id, ()) if at > now - _PERIOD_SECONDS]
        allowed = needs[-max(0, _MAX_PER_AGENT - len(recent)) :] if len(recent) < _MAX_PER_AGENT else []
        self._recent[view.id] = recent + [now] * len(allowed)
        if len(allowed) < len(needs):
            self._report(
                f"{view.name} changes its state very often, so {len(needs) - len(allowed)} changes were not sent; "
                f"see them: mngr events {view.name}"
            )
        return allowed

    def _build_notifications(
        self, host: Host, record: AgentRecord, view: AgentView, changes: list[StateChange]
    ) -> list[Notification]:
        """Return a notification for each change. All questions come from one call to the host."""
        if not changes:
            return []
        last_words = read_last_words(self._ctx, host, record)
        home_option = self._format_home()
        notifications = []
        for change in changes:
            at = change.at or time_format.format_timestamp()
            question = "" if change.state == "DONE" else find_question(self._ctx, record, last_words, until=at)
            answers = list_answers(self._ctx, record, change.state, change.reason)
            then = view.replace(state=change.state, state_reason=change.reason)
            commands = tuple(answer + home_option for answer in answers)
            notifications.append(build_agent_notification(change.id, at, then, question, commands))
        return notifications

    def _format_home(self) -> str:
        """Return the option that a command needs to find this home, or an empty text for the default home."""
        root = self._ctx.home.root
        is_default = root == os.path.join(os.path.expanduser("~"), ".mngr")
        return "" if is_default else f" --home {shell.quote(root)}"


def is_explained(view: AgentView, state: str | None, reason: str | None) -> bool:
    """True when the last known state covers what the view shows, so that there is nothing to tell."""
    event = classify_state(view.state, view.state_reason)
    if event is None or event == "done":
        return True
    if event == "answer" and state in (None, READY):
        return True  # It has had no message yet.
    return state is not None and classify_state(state, reason) == event


def _make_change(view: AgentView, offset: int) -> StateChange:
    """Return the change for a state that no event reports."""
    content = f"{view.state} {view.state_reason}".encode()
    return StateChange(
        id=compute_id(view.id, offset, content),
        at=time_format.format_timestamp(),
        state=view.state,
        reason=view.state_reason,
        offset=offset,
        end=offset,
        is_certain=True,
    )


class _HostQueue:
    """The agents of one host that are due, and the thread that reads them. It starts with the first agent."""

    def __init__(
        self, read: Callable[[list[str]], Mapping[str, float]], on_error: Callable[[BaseException], None]
    ) -> None:
        self._read = read
        self._on_error = on_error
        self._due: dict[str, float] = {}  # when to read, by id
        self._is_closed = False
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def add(self, agent_id: str, seconds: float) -> None:
        """Plan to read an agent after this many seconds. An earlier plan for the same agent stays."""
        with self._changed:
            at = time.monotonic() + seconds
            self._due[agent_id] = min(at, self._due.get(agent_id, at))
            self._changed.notify()

    def close(self) -> None:
        """End the thread after its present call."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            while ids := self._wait_for_batch():
                for agent_id, seconds in self._read(ids).items():
                    self.add(agent_id, seconds)
        except BaseException as error:  # The command must end, because this host would no longer be read.
            self._on_error(error)

    def _wait_for_batch(self) -> list[str]:
        """Return agents that are due, or an empty list when the queue is closed."""
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                ids = [agent_id for agent_id, at in self._due.items() if at <= now][:_BATCH_SIZE]
                if ids:
                    for agent_id in ids:
                        del self._due[agent_id]
                    return ids
                next_at = min(self._due.values(), default=None)
                self._changed.wait(None if next_at is None else next_at - now)
        return []
