"""Provides a clean room that is replaced by a new one if it breaks or if its host is lost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from mngr.base.errors import Unreachable
from mngr.tmr.cleanroom.clean_room import CleanRoom, CleanRoomBroken
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool

Result = TypeVar("Result")
_MAX_BROKEN_ROOMS = 1  # a command that breaks a second room is to blame itself
_MAX_LOST_HOSTS = 3


class ReplaceableRoom:
    """A clean room at one commit, which its user holds from its first command until the end of the `with` block."""

    def __init__(self, rooms: CleanRoomPool, commit: str, source: str | None = None) -> None:
        self._rooms, self._commit, self._source = rooms, commit, source
        self._stack = contextlib.ExitStack()
        self._room: CleanRoom | None = None
        self._broken_rooms = self._lost_hosts = 0

    def run(self, action: Callable[[CleanRoom], Result]) -> Result:
        """Return the result of an action in the room. Repeat the action in another room if the room fails.

        Raise CleanRoomBroken if a second room breaks. Raise Unreachable if mngr cannot replace the host, or if it lost
        several hosts.
        """
        while True:
            try:
                if self._room is None:
                    self._room = self._stack.enter_context(self._rooms.acquire(self._commit, self._source))
                return action(self._room)
            except (CleanRoomBroken, Unreachable) as error:
                self.__exit__(type(error), error, error.__traceback__)  # the pool discards the room
                if not self._can_replace(error):
                    raise

    def _can_replace(self, error: CleanRoomBroken | Unreachable) -> bool:
        """Count the failure. Return whether mngr tries another room after it."""
        if isinstance(error, Unreachable):
            self._lost_hosts += 1
            return self._rooms.creates_hosts and self._lost_hosts <= _MAX_LOST_HOSTS
        self._broken_rooms += 1
        return self._broken_rooms <= _MAX_BROKEN_ROOMS

    def __enter__(self) -> ReplaceableRoom:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        self._room = None
        return self._stack.__exit__(error_type, error, traceback)


def run_in_room(
    rooms: CleanRoomPool, commit: str, action: Callable[[CleanRoom], Result], source: str | None = None
) -> Result:
    """Return the result of an action in a clean room at a commit. See `ReplaceableRoom.run`."""
    with ReplaceableRoom(rooms, commit, source) as room:
        return room.run(action)
