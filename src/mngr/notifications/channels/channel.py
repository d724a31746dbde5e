"""The protocol that all channels implement, and the error for a failed delivery."""

from __future__ import annotations

from typing import Protocol

from mngr.base.errors import MngrError
from mngr.notifications.notification import Notification


class DeliveryFailed(MngrError):
    """A channel could not deliver a notification. `is_final` says that a retry would fail, too."""

    def __init__(self, message: str, hint: str, *, is_final: bool = False) -> None:
        super().__init__(message, hint)
        self.is_final = is_final


class Channel(Protocol):
    """A way to reach a person."""

    name: str

    def deliver(self, notification: Notification) -> str:
        """Deliver a notification within the channel's time limit, and return how. Raise DeliveryFailed."""
        ...
