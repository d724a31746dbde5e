"""Follows all agents and runs of a home, and delivers what a person must know. One process per home does this."""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterator

from mngr.api import Fleet
from mngr.base import json_structs
from mngr.base.errors import MngrError, TimedOut
from mngr.base.lock import Lock
from mngr.base.paths import Home
from mngr.notifications.agent_reader import AgentReader
from mngr.notifications.delivery import ChannelWorker, make_channel
from mngr.notifications.notification import Notification
from mngr.notifications.notify_settings import NotifySettings, compile_notification_filter
from mngr.notifications.outbox import Cursor, Entry, Outbox
from mngr.notifications.run_reader import RunReader
from mngr.overview.follower import OverviewFollower

_TICK_SECONDS = 0.5  # between two looks at the journals of runs


class NotificationFollower:
    """Reads, filters, saves and delivers notifications until it is closed. Create it only below `lock_home`."""

    def __init__(self, fleet: Fleet, settings: NotifySettings, report: Callable[[str], None]) -> None:
        self._report = report
        self._matches = compile_notification_filter(settings.filter)
        self._outbox = Outbox(fleet.context.home, settings.channels)
        self._error: BaseException | None = None
        self._new: queue.SimpleQueue[Notification] = queue.SimpleQueue()  # for the caller of `follow`
        self._known_errors: dict[str, str] = {}
        self._workers = [
            ChannelWorker(make_channel(name, settings), self._outbox, report=report, on_error=self._fail)
            for name in settings.channels
        ]
        self._deliver(self._outbox.list_open_entries())
        self._agents = AgentReader(
            fleet.context, self._outbox, max_age=settings.max_age, on_new=self._save, report=report
        )
        self._runs = RunReader(fleet.context.home, self._outbox, max_age=settings.max_age, on_new=self._save)
        self._overview = OverviewFollower(fleet, with_facts=False, on_event=self._agents.request)

    def follow(self) -> Iterator[Notification]:
        """Yield each new notification after it was saved. Raise the error of a thread that ended."""
        subscription = self._overview.subscribe()
        runs_read_at = 0.0
        while True:
            change = subscription.wait(_TICK_SECONDS)
            for card_change in change.cards if change else ():
                if card_change.after is not None:
                    self._agents.request(card_change.after.view)
            if change is not None:
                self._report_hosts(dict(change.overview.errors))
            if time.monotonic() > runs_read_at + _TICK_SECONDS:
                self._runs.read()
                runs_read_at = time.monotonic()
            error = self._error or self._agents.error
            if error is not None:
                raise error
            while not self._new.empty():
                yield self._new.get()

    def close(self) -> None:
        """Stop following. Notifications that are not delivered yet remain for the next follower."""
        self._agents.close()
        for worker in self._workers:
            worker.close()
        self._overview.close()

    def _fail(self, error: BaseException) -> None:
        self._error = error

    def _save(self, key: str, cursor: Cursor, notifications: list[Notification]) -> None:
        """Save the notifications that the filter selects, together with the cursor, then deliver them."""
        selected = [item for item in notifications if self._matches(json_structs.encode(item))]
        entries = self._outbox.save(key, cursor, selected)
        self._deliver(entries)
        for entry in entries:
            self._new.put(entry.notification)

    def _deliver(self, entries: list[Entry]) -> None:
        for entry in entries:
            for worker in self._workers:
                worker.add(entry)

    def _report_hosts(self, errors: dict[str, str]) -> None:
        """Say once when a host stops answering, and when it answers again."""
        for host in errors.keys() - self._known_errors.keys():
            self._report(f"{host} does not answer, so its changes come later: {errors[host]}")
        for host in self._known_errors.keys() - errors.keys():
            self._report(f"{host} answers again")
        self._known_errors = errors


class HomeLock:
    """A context manager that only one process per home can hold. It raises MngrError at once for the second one."""

    def __init__(self, home: Home) -> None:
        home.create()
        os.makedirs(home.notifications, mode=0o700, exist_ok=True)
        self._pid_path = os.path.join(home.notifications, "pid")
        self._lock = Lock(os.path.join(home.notifications, "lock"), timeout=0.0)

    def __enter__(self) -> HomeLock:
        try:
            self._lock.__enter__()
        except TimedOut:
            pid = self._read_pid()
            raise MngrError(
                "another `mngr notify --follow` already follows the agents of this home"
                + (f" (process {pid})" if pid else ""),
                "see what it sent: mngr notify" + (f"; or end it: kill {pid}" if pid else ""),
            ) from None
        with open(self._pid_path, "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.__exit__()

    def _read_pid(self) -> str:
        try:
            with open(self._pid_path, encoding="ascii") as file:
                text = file.read(20).strip()
        except (OSError, UnicodeError):
            return ""
        return text if text.isdigit() else ""
