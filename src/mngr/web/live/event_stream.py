"""Sends events to a page as they happen (server-sent events). A slow client gets the latest state and delays nobody."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from mngr.overview.follower import OverviewFollower
from mngr.overview.subscription import OverviewChange

HEARTBEAT_SECONDS = 15.0  # A client that is gone is noticed when the server writes to it.
RETRY_MILLISECONDS = 1000


class EventStream(StreamingResponse):
    """A response that never ends. The server waits until the client has read an event before it builds the next one."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[tuple[str, object]]) -> None:
        super().__init__(_encode(events), headers={"X-Accel-Buffering": "no"})


async def _encode(events: AsyncIterator[tuple[str, object]]) -> AsyncIterator[bytes]:
    yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
    async for name, facts in events:
        # JSON has no line breaks of its own, so each event has one line of data.
        yield f"event: {name}\ndata: {json.dumps(facts)}\n\n".encode()


class OverviewChanges:
    """The changes of the overview for one client. Changes that a slow client has not taken are merged."""

    def __init__(self, follower: OverviewFollower) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_changed = asyncio.Event()
        self._follower = follower
        self._subscription = follower.subscribe(self._wake_from_thread)

    def wake(self) -> None:
        """End the wait of the client."""
        self._is_changed.set()

    def _wake_from_thread(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self.wake)
        except RuntimeError:
            pass  # The server has ended.

    async def wait(self, seconds: float) -> OverviewChange | None:
        """Return what changed since the last call, or None after this many seconds or after `wake`."""
        change = self._subscription.take()
        if change is not None:
            return change
        try:
            await asyncio.wait_for(self._is_changed.wait(), seconds)
        except TimeoutError:
            return None
        self._is_changed.clear()
        return self._subscription.take()

    def close(self) -> None:
        """Collect no more changes."""
        self._follower.unsubscribe(self._subscription)
