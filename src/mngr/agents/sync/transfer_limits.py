"""Limits on the size and duration of transfers from an agent, and a reader that enforces them."""

from __future__ import annotations

import os
import select
import time
from typing import IO

from mngr.base import time_format
from mngr.base.config import DEFAULTS, Settings
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Struct

CHUNK_BYTES = 1 << 18


class TransferLimits(Struct):
    """The limits of one transfer from an agent."""

    bytes: int = DEFAULTS["pull"]["max_bytes"]
    file_bytes: int = DEFAULTS["pull"]["max_file_bytes"]
    files: int = DEFAULTS["pull"]["max_files"]
    seconds: float = time_format.parse_duration(DEFAULTS["pull"]["timeout"])


def get_limits(settings: Settings) -> TransferLimits:
    """Return the limits from the user's settings."""
    return TransferLimits(
        bytes=settings.get("pull.max_bytes"),
        file_bytes=settings.get("pull.max_file_bytes"),
        files=settings.get("pull.max_files"),
        seconds=time_format.parse_duration(settings.get("pull.timeout")),
    )


class LimitedReader:
    """Reads a tar stream once, with a deadline and a maximum position.

    The position limit keeps a forged header from filling the memory.
    """

    def __init__(self, stream: IO[bytes], seconds: float) -> None:
        self._fd = stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._held = b""
        self._at = 0
        self.last_read = b""
        self.max_position = 4 * 1024 * 1024

    def read(self, count: int) -> bytes:
        """Return `count` bytes, or fewer at the end of the stream."""
        if self._at + count > self.max_position:
            raise MngrError(
                "mngr refused the copy: the host sent data that is not a tar archive",
                "check the host: mngr doctor @HOST",
            )
        parts, self._held = [self._held[:count]], self._held[count:]
        missing = count - len(parts[0])
        while missing > 0:
            if not self._poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
                message = f"the files did not arrive within {time_format.format_age(self._seconds)}"
                raise TimedOut(
                    message, "copy fewer files at once, or raise the limit: mngr config set --user pull.timeout 2h"
                )
            data = os.read(self._fd, max(missing, 1 << 16))
            if not data:
                break
            parts.append(data[:missing])
            self._held = data[missing:]
            missing -= len(parts[-1])
        self.last_read = b"".join(parts)
        self._at += len(self.last_read)
        return self.last_read

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def seek(self, position: int) -> None:
        """Skip forward to a position. Raise ValueError for a position that was passed already."""
        if position < self._at:
            raise ValueError("it points backwards")
        while self._at < position and self.read(min(position - self._at, CHUNK_BYTES)):
            pass
