"""Runs calls that may block for long in threads, so that a host that does not answer delays no other page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


class TooManyCalls(Exception):
    """All threads wait for hosts that do not answer."""


class BackgroundCalls:
    """Runs at most `limit` calls at the same time. With `must_end`, the program ends only after its calls."""

    def __init__(self, limit: int, *, must_end: bool = False) -> None:
        self._limit = limit
        self._must_end = must_end
        self._count = 0

    async def run(self, function: Callable[[], _Result]) -> _Result:
        """Return what the function returns, or raise what it raises. Raise TooManyCalls at the limit."""
        if self._count >= self._limit:
            raise TooManyCalls
        self._count += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()

        def finish(result: _Result | None, error: Exception | None) -> None:
            self._count -= 1  # Only now, because a client that goes away does not end the thread.
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def call() -> None:
            result, error = None, None
            try:
                result = function()
            except Exception as caught:
                error = caught
            try:
                loop.call_soon_threadsafe(finish, result, error)
            except RuntimeError:
                pass  # The server has ended.

        threading.Thread(target=call, daemon=not self._must_end).start()
        return await future
