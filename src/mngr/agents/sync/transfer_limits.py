"""How much may come from an agent, and a stream that gives no more."""

from __future__ import annotations

import os
import select
import time
from typing import IO

from mngr.base import clock
from mngr.base.config import DEFAULTS, Settings
from mngr.base.errors import MngrError, TimedOut
from mngr.base.model import Struct

CHUNK_BYTES = 1 << 18


class TransferLimits(Struct):
    """How much may come from an agent at once."""

    bytes: int = DEFAULTS["pull"]["max_bytes"]
    file_bytes: int = DEFAULTS["pull"]["max_file_bytes"]
    files: int = DEFAULTS["pull"]["max_files"]
    seconds: float = clock.parse_duration(DEFAULTS["pull"]["timeout"])


def get_limits(settings: Settings) -> TransferLimits:
    """As the user has set them."""
    return TransferLimits(
        bytes=settings.get("pull.max_bytes"),
        file_bytes=settings.get("pull.max_file_bytes"),
        files=settings.get("pull.max_files"),
        seconds=clock.parse_duration(settings.get("pull.timeout")),
    )


def format_size(count: int) -> str:
    """A number of bytes as people write it."""
    number, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if number < 1000:
            break
        number, unit = number / 1000, larger
    return f"{number:.4g} {unit}"


class LimitedReader:
    """A file that is read once: for so long, and no more than its files need, so that no header fills our memory."""

    def __init__(self, stream: IO[bytes], seconds: float) -> None:
        self._fd = stream.fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._held = b""
        self._at = 0
        self.last_read = b""  # what was read last
        self.max_position = 4 * 1024 * 1024

    def read(self, count: int) -> bytes:
        """As many bytes, or less at the end."""
        if self._at + count > self.max_position:
            raise MngrError("refused: the archive that came is not one that tar makes", "look at the host")
        parts, self._held = [self._held[:count]], self._held[count:]
        need = count - len(parts[0])
        while need > 0:
            if not self._poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
                said = f"the files did not come within {clock.format_age(self._seconds)}"
                raise TimedOut(said, "copy less at once")
            data = os.read(self._fd, max(need, 1 << 16))
            if not data:
                break
            parts.append(data[:need])
            self._held = data[need:]
            need -= len(parts[-1])
        self.last_read = b"".join(parts)
        self._at += len(self.last_read)
        return self.last_read

    def tell(self) -> int:
        return self._at

    def seek(self, to: int) -> None:
        if to < self._at:
            raise ValueError("it leads backwards")
        while self._at < to and self.read(min(to - self._at, CHUNK_BYTES)):
            pass
