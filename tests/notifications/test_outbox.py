"""Tests the file that remembers what is still to deliver."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.base.paths import Home
from mngr.notifications import outbox as outbox_module
from mngr.notifications.notification import Notification, build_test_notification
from mngr.notifications.outbox import Cursor, Delivery, Outbox, get_path, read_outbox

CHANNELS = ("command", "webhook")


def make(number: int) -> Notification:
    return build_test_notification(f"id-{number}", "2026-11-19T18:00:00.000Z")


def deliver(outbox: Outbox, number: int, channel: str, ok: bool | None = True) -> None:
    outbox.save_delivery(Delivery(id=f"id-{number}", channel=channel, ok=ok, attempts=1, at="", details=""))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    os.makedirs(home.notifications)
    return home


def list_open(outbox: Outbox) -> list[tuple[str, list[str]]]:
    return [(entry.notification.id, entry.list_open_channels()) for entry in outbox.list_open_entries()]


def test_a_change_and_its_cursor_survive_a_kill_together(home: Home) -> None:
    outbox = Outbox(home, CHANNELS)
    outbox.save("a-1", Cursor(offset=10, state="WAITING"), [make(1), make(2)])
    deliver(outbox, 1, "command")
    deliver(outbox, 2, "command", ok=None)
    again = Outbox(home, CHANNELS)  # without closing the first one, as after a kill
    assert again.find_cursor("a-1") is not None
    assert list_open(again) == [("id-1", ["webhook"]), ("id-2", ["command", "webhook"])]
    assert again.first_started_at == outbox.first_started_at


def test_a_known_notification_is_not_added_twice(home: Home) -> None:
    outbox = Outbox(home, CHANNELS)
    assert len(outbox.save("a-1", Cursor(offset=10), [make(1)])) == 1
    assert outbox.save("a-1", Cursor(offset=20), [make(1)]) == []


def test_half_a_row_at_the_end_loses_nothing_else(home: Home) -> None:
    outbox = Outbox(home, CHANNELS)
    outbox.save("a-1", Cursor(offset=10), [make(1)])
    outbox.save("a-1", Cursor(offset=99), [make(2)])
    path = Path(get_path(home))
    path.write_bytes(path.read_bytes()[:-20])
    again = Outbox(home, CHANNELS)
    cursor = again.find_cursor("a-1")
    assert cursor is not None and cursor.offset == 10
    assert list_open(again) == [("id-1", ["command", "webhook"])]
    again.save("a-1", Cursor(offset=99), [make(2)])
    assert len(list_open(Outbox(home, CHANNELS))) == 2


def test_a_channel_that_is_no_longer_configured_needs_nothing(home: Home) -> None:
    Outbox(home, CHANNELS).save("a-1", Cursor(offset=10), [make(1)])
    assert list_open(Outbox(home, ("command",))) == [("id-1", ["command"])]


def test_the_journal_stays_small_and_keeps_what_is_open(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "_MAX_JOURNAL_BYTES", 100_000)
    outbox = Outbox(home, ("command",))
    outbox.save("a-1", Cursor(offset=1), [make(0)])
    for number in range(1, 1000):
        outbox.save("a-1", Cursor(offset=number), [make(number)])
        deliver(outbox, number, "command")
    assert os.path.getsize(get_path(home)) < 300_000
    entries = read_outbox(home).entries
    assert len(entries) <= 500
    assert list_open(Outbox(home, ("command",))) == [("id-0", ["command"])]


def test_the_cursor_of_a_busy_agent_is_not_written_for_each_event(home: Home) -> None:
    outbox = Outbox(home, ("command",))
    outbox.save("a-1", Cursor(offset=1, state="RUNNING"))
    size = os.path.getsize(get_path(home))
    for offset in range(2, 1000):
        outbox.save("a-1", Cursor(offset=offset, state="RUNNING"))
    assert os.path.getsize(get_path(home)) == size
    cursor = outbox.find_cursor("a-1")
    assert cursor is not None and cursor.offset == 999


def test_a_journal_that_cannot_be_written_is_an_error(home: Home) -> None:
    os.rmdir(home.notifications)
    Path(home.notifications).write_text("")
    with pytest.raises(MngrError, match="cannot read"):
        Outbox(home, CHANNELS)
    os.unlink(home.notifications)
    with pytest.raises(MngrError, match="cannot write"):
        Outbox(home, CHANNELS)
