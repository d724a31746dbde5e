"""Recordings of terminals, as asciicast v2: a line about the terminal, then a line for everything that happened."""

from __future__ import annotations

import codecs
import json
import threading
import time
from pathlib import Path

from mngr.e2e.redact import Redactor

_MAX_HELD_CHARACTERS = 10_000  # characters that wait for the rest of what may be a secret


def choose_unused_path(place: Path, name: str) -> Path:
    """A file for a recording that is not there yet."""
    plain = "".join(char if char.isalnum() or char in "-_." else "-" for char in name)
    number = 1
    while (path := place / f"{plain}{f'-{number}' if number > 1 else ''}.cast").exists():
        number += 1
    return path


class CastRecorder:
    """Written while it happens; what is on disk can be played at any moment."""

    def __init__(self, path: Path, size: tuple[int, int], title: str, redact: Redactor) -> None:
        self._redact = redact
        self._held = ""
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

    def record_output(self, data: bytes) -> None:
        """Something was shown."""
        text = self._held + self._decoder.decode(data)
        at = self._redact.find_open_secret(text)
        at = len(text) if len(text) - at > _MAX_HELD_CHARACTERS else at
        self._held = text[at:]
        if at:
            self._write_event("o", self._redact(text[:at]))

    def record_keys(self, text: str) -> None:
        """Somebody pressed keys."""
        self._write_event("i", self._redact(text))

    def record_resize(self, rows: int, columns: int) -> None:
        """The terminal has another size."""
        self._write_event("r", f"{columns}x{rows}")

    def _write_event(self, kind: str, text: str) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps([round(time.monotonic() - self._began, 6), kind, text]) + "\n")

    def close(self) -> None:
        if self._held:
            self._write_event("o", self._redact(self._held))
            self._held = ""
        with self._lock:
            self._file.close()


def redact_file(path: Path, redact: Redactor) -> None:
    """Take secrets out of a recording that somebody else has written; a line that is no event stays as it is."""
    made: list[str] = []
    held, at = "", 0.0

    def show(text: str) -> None:
        made.append(json.dumps([at, "o", redact(text)]))

    for row in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            at, kind, text = json.loads(row)
        except ValueError:  # the first line, or one that was cut off
            made.append(redact(row))
            continue
        if kind != "o":
            made.append(json.dumps([at, kind, redact(text)]))
            continue
        held += text
        end = redact.find_open_secret(held)
        if end:
            show(held[:end])
        held = held[end:]
    if held:
        show(held)
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(made) + "\n", encoding="utf-8")
    fresh.replace(path)
