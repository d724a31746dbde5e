"""Delivers notifications. Each channel has its own thread, so a channel that hangs or fails delays no other."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.notifications.channels.channel import Channel, DeliveryFailed
from mngr.notifications.channels.command import CommandChannel
from mngr.notifications.channels.desktop import DesktopChannel
from mngr.notifications.channels.web_request import NtfyChannel, WebhookChannel
from mngr.notifications.notification import Notification
from mngr.notifications.notify_settings import COMMAND, DESKTOP, NTFY, NotifySettings
from mngr.notifications.outbox import Delivery, Entry, Outbox

_CLOSE_SECONDS = 2.0
RETRY_DELAYS = (1.0, 5.0, 25.0, 120.0)  # seconds between the attempts
MAX_ATTEMPTS = 1 + len(RETRY_DELAYS)


def make_channel(name: str, settings: NotifySettings) -> Channel:
    """Return the channel of this name."""
    if name == DESKTOP:
        return DesktopChannel(settings.timeout)
    if name == NTFY:
        return NtfyChannel(settings.ntfy_url, settings.ntfy_token_file, settings.timeout)
    if name == COMMAND:
        return CommandChannel(settings.command, settings.timeout)
    return WebhookChannel(settings.webhook_url, settings.timeout)


class ChannelWorker:
    """Delivers on one channel, one notification after the other. A failed one waits while the next ones go ahead."""

    def __init__(
        self,
        channel: Channel,
        outbox: Outbox,
        *,
        report: Callable[[str], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.name = channel.name
        self._channel = channel
        self._outbox = outbox
        self._report = report
        self._on_error = on_error
        self._due: list[tuple[float, int, int, Notification]] = []  # when, a number, failed attempts, what
        self._number = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Deliver an entry, and count the attempts of an earlier follower."""
        if self.name in entry.list_open_channels():
            earlier = entry.find_delivery(self.name)
            self._put(time.monotonic(), earlier.attempts if earlier else 0, entry.notification)

    def close(self) -> None:
        """Deliver nothing more. Wait a moment for the result of the present attempt, so that it need not be repeated."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(_CLOSE_SECONDS)

    def _put(self, at: float, attempts: int, notification: Notification) -> None:
        with self._changed:
            self._number += 1
            heapq.heappush(self._due, (at, self._number, attempts, notification))
            self._changed.notify()

    def _run(self) -> None:
        try:
            while (due := self._wait_for_next()) is not None:
                attempts, notification = due
                self._deliver(notification, attempts + 1)
        except BaseException as error:  # for example a full disk: nothing may be delivered that is not recorded
            self._on_error(error)

    def _wait_for_next(self) -> tuple[int, Notification] | None:
        """Return the failed attempts and the notification that is due, or None when the worker is closed."""
        with self._changed:
            while not self._is_closed and (not self._due or self._due[0][0] > time.monotonic()):
                self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
            if self._is_closed:
                return None
            _, _, attempts, notification = heapq.heappop(self._due)
            return attempts, notification

    def _deliver(self, notification: Notification, attempt: int) -> None:
        """Try once, record the result, and plan the next attempt if one is left."""
        result = try_channel(self._channel, notification)
        ok: bool | None = True
        if isinstance(result, MngrError):
            is_final = (isinstance(result, DeliveryFailed) and result.is_final) or attempt >= MAX_ATTEMPTS
            ok = False if is_final else None
            plan = "mngr gives up" if is_final else f"mngr tries again in {RETRY_DELAYS[attempt - 1]:g}s"
            self._report(f"{self.name}: {result.message}; {plan} ({notification.title}, {notification.id})")
        delivery = Delivery(
            id=notification.id,
            channel=self.name,
            ok=ok,
            attempts=attempt,
            at=time_format.format_timestamp(),
            details=result.message if isinstance(result, MngrError) else result,
        )
        self._outbox.save_delivery(delivery)
        if ok is None:
            self._put(time.monotonic() + RETRY_DELAYS[attempt - 1], attempt, notification)


def try_channel(channel: Channel, notification: Notification) -> str | MngrError:
    """Deliver once, and return how, or why it failed."""
    try:
        return channel.deliver(notification)
    except MngrError as error:
        return error
    except Exception as error:  # A bug in one channel must not end the notifications on the others.
        return DeliveryFailed(f"this is a bug in mngr: {type(error).__name__}: {error}", "report it: mngr version")
