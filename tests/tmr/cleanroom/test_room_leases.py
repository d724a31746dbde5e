"""Rooms that nobody uses are retired after a while, and their numbers with them."""

from __future__ import annotations

from mngr.tmr.cleanroom.room_leases import IdleRoom, RoomLeases, RoomPurpose

PURPOSE = RoomPurpose("commit", "repo")


def test_a_room_is_retired_only_after_it_was_idle_for_so_long() -> None:
    leases = RoomLeases[str](2)
    used, idle = leases.take(PURPOSE), leases.take(PURPOSE)
    leases.keep(IdleRoom(idle.number, PURPOSE, "idle"))
    assert leases.retire_idle(60.0) == ([], [])
    assert leases.retire_idle(0.0) == (["idle"], [idle.number])
    new = leases.take(PURPOSE)
    assert new.idle is None and new.number not in (used.number, idle.number)  # so that it gets a new host
    leases.keep(IdleRoom(used.number, PURPOSE, "used"))
    assert leases.take(PURPOSE).idle == IdleRoom(used.number, PURPOSE, "used")
