"""Finds the alarms and ends of all runs of a home, by the new rows of their journals."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from mngr.base import time_format
from mngr.base.paths import Home
from mngr.mapreduce.journal.run_rows import AlarmRow, EndedRow
from mngr.mapreduce.journal.run_state import JournalRow
from mngr.notifications.event_rows import compute_id, find_time
from mngr.notifications.notification import Notification, build_run_notification
from mngr.notifications.outbox import Cursor, Outbox
from mngr.overview.follow_runs import JournalFollower

_MAX_RUNS = 50  # the ones whose journals changed last
_RUNS_PATH = os.path.join(".mngr", "runs")


class RunReader:
    """Reads the journals. A cursor counts the rows that were read."""

    def __init__(
        self, home: Home, outbox: Outbox, *, max_age: float, on_new: Callable[[str, Cursor, list[Notification]], None]
    ) -> None:
        self._links = os.path.join(home.cache, "runs")  # A link for each run, by its name.
        self._outbox = outbox
        self._max_age = max_age
        self._on_new = on_new
        self._followers: dict[str, JournalFollower] = {}
        self._counts: dict[str, int] = {}  # rows that were read, by run
        self._stamps: dict[str, tuple[int, int]] = {}  # size and time of the journal when it was read last

    def read(self) -> None:
        """Read the rows that were added."""
        for path in self._list_changed_runs():
            journal = os.path.join(path, "journal.jsonl")
            follower = self._followers.setdefault(path, JournalFollower(journal))
            try:
                rows = follower.read()
            except OSError:  # for example no permission; the other runs matter, too
                continue
            if rows:
                self._handle(path, rows)
                self._stamps.pop(path, None)  # More rows may follow, because one read is limited.

    def _list_changed_runs(self) -> list[str]:
        """Return the directories of runs whose journal changed since the last look."""
        stamps: dict[str, tuple[int, int]] = {}
        for name in _list_names(self._links):
            path = os.path.realpath(os.path.join(self._links, name))
            try:
                stat = os.stat(os.path.join(path, "journal.jsonl"))
            except OSError:
                continue
            if path in self._followers or stat.st_mtime > time.time() - self._max_age:
                stamps[path] = stat.st_size, stat.st_mtime_ns
        latest = sorted(stamps, key=lambda path: stamps[path][1])[-_MAX_RUNS:]
        changed = [path for path in latest if self._stamps.get(path) != stamps[path]]
        self._stamps.update({path: stamps[path] for path in changed})
        return changed

    def _handle(self, path: str, rows: list[JournalRow]) -> None:
        """Save the notifications of new rows."""
        first = self._counts.get(path, 0)
        self._counts[path] = first + len(rows)
        cursor = self._outbox.find_cursor(path)
        oldest = time_format.format_timestamp(time.time() - self._max_age)
        if cursor is None:  # mngr notify has not seen this run yet.
            oldest = max(oldest, self._outbox.first_started_at)
        known = cursor.offset if cursor is not None else 0
        notifications = [
            build_row_notification(path, row)
            for number, row in enumerate(rows, first)
            if number >= known and row.at >= oldest and isinstance(row, (AlarmRow, EndedRow))
        ]
        if self._counts[path] > known:
            self._on_new(path, Cursor(offset=self._counts[path]), notifications)


def build_row_notification(run_path: str, row: AlarmRow | EndedRow) -> Notification:
    """Return the notification for an alarm or the end of a run."""
    name = os.path.basename(run_path)
    root = run_path.removesuffix(os.path.join(os.sep, _RUNS_PATH, name)) or os.sep
    details = row.text if isinstance(row, AlarmRow) else f"{row.outcome} {row.why or ''}".strip()
    notification_id = compute_id(run_path, 0, f"{row.at} {row.type_name}".encode())
    at = find_time(row.at) or time_format.format_timestamp()
    return build_run_notification(notification_id, at, row.type_name, name, root, details)


def _list_names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
