"""Recordings of terminals, as asciicast v2: a line about the terminal, then a line for everything that happened."""

from __future__ import annotations

import codecs
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path


def unused(place: Path, name: str) -> Path:
    """A file for a recording that is not there yet."""
    plain = "".join(char if char.isalnum() or char in "-_." else "-" for char in name)
    number = 1
    while (path := place / f"{plain}{f'-{number}' if number > 1 else ''}.cast").exists():
        number += 1
    return path


class Cast:
    """Written while it happens; what is on disk can be played at any moment."""

    def __init__(
        self, path: Path, size: tuple[int, int], title: str, redact: Callable[[str], str] = str
    ) -> None:
        self._redact = redact
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._file = path.open("w", encoding="utf-8", buffering=1)
        about = {
            "version": 2,
            "width": size[1],
            "height": size[0],
            "timestamp": int(time.time()),
            "title": title,
        }
        self._file.write(json.dumps(about) + "\n")

    def output(self, data: bytes) -> None:
        """Something was shown."""
        if text := self._decoder.decode(data):
            self._event("o", self._redact(text))

    def typed(self, text: str) -> None:
        """Somebody pressed keys."""
        self._event("i", self._redact(text))

    def resized(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        self._event("r", f"{columns}x{rows}")

    def _event(self, kind: str, text: str) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps([round(time.monotonic() - self._began, 6), kind, text]) + "\n")

    def close(self) -> None:
        with self._lock:
            self._file.close()
