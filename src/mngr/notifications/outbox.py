"""The file that remembers what was read and what is still to deliver, so that no change is lost or told twice.

It is a journal with one writer. A row with the changes of an agent also moves the agent's cursor, so a kill can come
between two rows but not between a change and its cursor. Each start rewrites the file without the rows that no longer matter.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from mngr.base import json_structs, shell, time_format
from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.base.untrusted_json import as_object, get_objects, get_text, parse_json
from mngr.notifications.notification import Notification

_MAX_KEPT = 200  # delivered notifications that can still be listed
_MAX_JOURNAL_BYTES = 4 * 1024 * 1024  # A larger journal is written again.
_CURSOR_STEP_BYTES = 64 * 1024  # A cursor that moved less is not written, because the bytes in between tell nothing.
_CURSOR_DAYS = 60.0  # The cursor of an agent that was not read for this long is deleted.


class Cursor(Struct):
    """How far the events of an agent, or the journal of a run, were read. `state` is the last state that they show."""

    offset: int = 0
    state: str | None = None
    reason: str | None = None
    is_from_event: bool = True  # False when no event showed the state
    is_old: bool = False  # True while events are read that are older than the first start of `mngr notify`
    at: str = ""  # when it moved


class Delivery(Struct):
    """The result of the last attempt to deliver a notification on a channel. `ok` is None while attempts remain."""

    id: str
    channel: str
    ok: bool | None
    attempts: int
    at: str
    details: str


class Entry(Struct):
    """A notification with its channels and the results so far."""

    notification: Notification
    channels: tuple[str, ...]
    deliveries: tuple[Delivery, ...] = ()

    def find_delivery(self, channel: str) -> Delivery | None:
        """Return the last result on a channel, or None before the first attempt."""
        return next((delivery for delivery in self.deliveries if delivery.channel == channel), None)

    def list_open_channels(self) -> list[str]:
        """Return the channels that still need an attempt."""
        results = {delivery.channel: delivery.ok for delivery in self.deliveries}
        return [channel for channel in self.channels if results.get(channel) is None]


class OutboxState(Struct):
    """The cursors and the entries that the journal contains."""

    first_started_at: str = ""
    cursors: Mapping[str, Cursor] = {}
    entries: Mapping[str, Entry] = {}


def get_path(home: Home) -> str:
    """Return the path of the journal."""
    return os.path.join(home.notifications, "journal.jsonl")


def read_outbox(home: Home) -> OutboxState:
    """Return the state of the journal. A damaged row is skipped, for example the last one after a full disk."""
    first_started_at, cursors, entries = "", dict[str, Cursor](), dict[str, Entry]()
    try:
        with open(get_path(home), "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        lines = []
    except OSError as error:
        path = get_path(home)
        raise MngrError(f"cannot read {path}: {error.strerror}", f"check its permissions: ls -l {path}") from None
    for line in lines:
        try:
            row = as_object(parse_json(line))
            match row.get("type"):
                case "started":
                    first_started_at = get_text(row, "at")
                case "cursor":
                    cursors[get_text(row, "key")] = json_structs.decode(Cursor, row.get("cursor"))
                    for item in get_objects(row, "entries"):
                        entry = json_structs.decode(Entry, item)
                        entries[entry.notification.id] = entry
                case "entry":
                    entry = json_structs.decode(Entry, row.get("entry"))
                    entries[entry.notification.id] = entry
                case "delivery":
                    delivery = json_structs.decode(Delivery, row.get("delivery"))
                    if delivery.id in entries:
                        entries[delivery.id] = _add_delivery(entries[delivery.id], delivery)
        except (ValueError, TypeError):
            continue
    return OutboxState(first_started_at=first_started_at, cursors=cursors, entries=entries)


def _add_delivery(entry: Entry, delivery: Delivery) -> Entry:
    others = tuple(other for other in entry.deliveries if other.channel != delivery.channel)
    return entry.replace(deliveries=(*others, delivery))


class Outbox:
    """The journal of the only follower. Its threads may call every method."""

    def __init__(self, home: Home, channels: Sequence[str]) -> None:
        """Read the journal, and write it again without old rows. Raise MngrError if the disk does not allow that."""
        self._path = get_path(home)
        self._channels = tuple(channels)
        self._lock = threading.Lock()
        state = read_outbox(home)
        self.first_started_at = state.first_started_at or time_format.format_timestamp()
        self._cursors = _select_cursors(state.cursors)
        self._written = dict(self._cursors)  # the cursors that the file has
        self._entries = _select_entries(state.entries.values(), self._channels)
        self._fd = -1
        self._size = self._least_size = 0  # now, and after the file was written again
        self._rewrite()

    def list_open_entries(self) -> list[Entry]:
        """Return the entries with a channel that still needs an attempt, the oldest first."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.list_open_channels()]

    def find_cursor(self, key: str) -> Cursor | None:
        """Return how far an agent or a run was read, or None when it is new."""
        with self._lock:
            return self._cursors.get(key)

    def save(self, key: str, cursor: Cursor, notifications: Iterable[Notification] = ()) -> list[Entry]:
        """Move a cursor and add notifications in one write. Return the new entries, without those that are known."""
        with self._lock:
            entries = [
                Entry(notification=notification, channels=self._channels)
                for notification in notifications
                if notification.id not in self._entries
            ]
            self._cursors[key] = cursor = cursor.replace(at=time_format.format_timestamp())
            if entries or _is_worth_a_row(self._written.get(key), cursor):
                self._append({"type": "cursor", "key": key, "cursor": cursor, "entries": entries})
                self._written[key] = cursor
            self._entries.update((entry.notification.id, entry) for entry in entries)
        return entries

    def save_delivery(self, delivery: Delivery) -> None:
        """Add the result of an attempt."""
        with self._lock:
            self._append({"type": "delivery", "delivery": delivery})
            self._entries[delivery.id] = _add_delivery(self._entries[delivery.id], delivery)
            if self._size > max(_MAX_JOURNAL_BYTES, 2 * self._least_size):
                self._entries = _select_entries(self._entries.values(), self._channels)
                self._rewrite()

    def close(self) -> None:
        """Write no more."""
        with self._lock:
            os.close(self._fd)

    def _append(self, row: dict[str, object]) -> None:
        data = _encode_row(row)
        try:
            if os.write(self._fd, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            raise self._make_error(error) from None
        self._size += len(data)

    def _rewrite(self) -> None:
        rows: list[dict[str, object]] = [{"type": "started", "at": self.first_started_at}]
        rows += [{"type": "cursor", "key": key, "cursor": cursor} for key, cursor in self._cursors.items()]
        rows += [{"type": "entry", "entry": entry} for entry in self._entries.values()]
        data = b"".join(map(_encode_row, rows))
        temporary_path = f"{self._path}.new"
        try:
            fd = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            os.replace(temporary_path, self._path)
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise self._make_error(error) from None
        self._size = self._least_size = len(data)
        self._written = dict(self._cursors)

    def _make_error(self, error: OSError) -> MngrError:
        return MngrError(f"cannot write {self._path}: {error.strerror}", shell.suggest_disk_check(self._path))


def _is_worth_a_row(written: Cursor | None, cursor: Cursor) -> bool:
    """True unless only a few bytes, which told nothing, lie between the two cursors."""
    return (
        written is None
        or (written.state, written.reason) != (cursor.state, cursor.reason)
        or cursor.offset - written.offset > _CURSOR_STEP_BYTES
    )


def _encode_row(row: dict[str, object]) -> bytes:
    return json.dumps(json_structs.encode({"v": 1, **row}), separators=(",", ":")).encode() + b"\n"


def _select_cursors(cursors: Mapping[str, Cursor]) -> dict[str, Cursor]:
    """Return the cursors that moved lately."""
    oldest = time_format.format_timestamp(time.time() - _CURSOR_DAYS * 86400)
    return {key: cursor for key, cursor in cursors.items() if key and cursor.at >= oldest}


def _select_entries(entries: Iterable[Entry], channels: tuple[str, ...]) -> dict[str, Entry]:
    """Return the entries to deliver and the latest delivered ones. Channels that are not used any more need nothing."""
    used = [
        entry.replace(
            channels=tuple(
                name for name in entry.channels if name in channels or name not in entry.list_open_channels()
            )
        )
        for entry in entries
    ]
    done = [entry for entry in used if not entry.list_open_channels()]
    old = {entry.notification.id for entry in done[:-_MAX_KEPT]}
    return {entry.notification.id: entry for entry in used if entry.notification.id not in old}
