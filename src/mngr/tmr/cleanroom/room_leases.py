"""Decides which clean room of a pool serves a request: an idle one for the same commit, or a new one."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Room = TypeVar("Room")


@dataclass(frozen=True)
class RoomPurpose:
    """The commit and the source that a clean room serves. The room never serves another."""

    commit: str
    source: str  # the repository with the commit


@dataclass(frozen=True)
class IdleRoom(Generic[Room]):
    """A clean room that nobody uses, with its number."""

    number: int
    purpose: RoomPurpose
    room: Room
    since: float = field(default_factory=time.monotonic, compare=False)


@dataclass(frozen=True)
class RoomLease(Generic[Room]):
    """The right to use one number, with an idle room of that number if there is one."""

    number: int
    idle: IdleRoom[Room] | None = None  # its purpose may be another one; then the room must be discarded


class RoomLeases(Generic[Room]):
    """Gives each clean room of one pool a number, and keeps the rooms that nobody uses."""

    def __init__(self, count: int) -> None:
        """Allow at most `count` rooms, used and idle ones together."""
        self._free_numbers = list(range(count, 0, -1))
        self._last_number = count
        self._idle: list[IdleRoom[Room]] = []  # the one that was used last is the last
        self._changed = threading.Condition()

    def take(self, purpose: RoomPurpose) -> RoomLease[Room]:
        """Return an idle room with the purpose, else a free number, else the room that was idle for longest.

        Waits while all rooms are in use.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._idle or self._free_numbers)
            idle = next((idle for idle in reversed(self._idle) if idle.purpose == purpose), None)
            if idle is None and self._free_numbers:
                return RoomLease(self._free_numbers.pop())
            idle = idle or self._idle[0]
            self._idle.remove(idle)
            return RoomLease(idle.number, idle)

    def keep(self, idle: IdleRoom[Room]) -> None:
        """Keep a room for the next request with its purpose."""
        with self._changed:
            self._idle.append(idle)
            self._changed.notify()

    def return_number(self, number: int, *, is_lost: bool) -> None:
        """Let others use the number, whose room is gone. If its host is lost, use a new number for a new host."""
        with self._changed:
            self._free_numbers.append(self._make_number() if is_lost else number)
            self._changed.notify()

    def retire_idle(self, seconds: float) -> tuple[list[Room], list[int]]:
        """Return the rooms that were idle for so long, which the caller must discard, and the numbers without a room.

        Other numbers take the place of these numbers, so that later rooms get other hosts.
        """
        with self._changed:
            latest = time.monotonic() - seconds
            retired = [idle for idle in self._idle if idle.since <= latest]
            self._idle = [idle for idle in self._idle if idle.since > latest]
            numbers = [*(idle.number for idle in retired), *self._free_numbers]
            self._free_numbers = [self._make_number() for _ in numbers]
            self._changed.notify_all()
        return [idle.room for idle in retired], numbers

    def _make_number(self) -> int:
        self._last_number += 1
        return self._last_number
