"""Write terminal recordings in the asciicast v2 format: a header line, then one line per event."""

from __future__ import annotations

import codecs
import json
import threading
import time
from itertools import accumulate
from pathlib import Path

from mngr.e2e.redact_secrets import Redactor, StreamRedactor


def choose_unused_path(directory: Path, name: str) -> Path:
    """Return the path of a recording that does not exist yet."""
    safe_name = "".join(char if char.isalnum() or char in "-_." else "-" for char in name)
    number = 1
    while (path := directory / f"{safe_name}{f'-{number}' if number > 1 else ''}.cast").exists():
        number += 1
    return path


class CastRecorder:
    """Writes events as they happen, so the file on disk can be played at any moment."""

    def __init__(self, path: Path, size: tuple[int, int], title: str, redact: Redactor) -> None:
        self._redact = redact
        self._output = StreamRedactor(redact)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self.began = time.monotonic()  # the time of the first event
        self._file = path.open("w", encoding="utf-8", buffering=1)
        header = {
            "version": 2,
            "width": size[1],
            "height": size[0],
            "timestamp": int(time.time()),
            "title": title,
        }
        self._file.write(json.dumps(header) + "\n")

    def record_output(self, data: bytes) -> None:
        """Record what the program printed, and hold back text that may be the beginning of a secret."""
        if shown := self._output.add_text(self._decoder.decode(data)):
            self._write_event("o", shown)

    def record_keys(self, text: str) -> None:
        """Record keys that were pressed."""
        self._write_event("i", self._redact(text))

    def record_resize(self, rows: int, columns: int) -> None:
        """Record a new size of the terminal."""
        self._write_event("r", f"{columns}x{rows}")

    def _write_event(self, kind: str, text: str) -> None:
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps([round(time.monotonic() - self.began, 6), kind, text]) + "\n")

    def close(self) -> None:
        if rest := self._output.finish():
            self._write_event("o", rest)
        with self._lock:
            self._file.close()


def redact_file(path: Path, redact: Redactor) -> None:
    """Remove secrets from a recording that another program wrote."""
    text = redact_recording(path.read_text(encoding="utf-8", errors="replace"), redact)
    new_path = path.with_suffix(".new")
    new_path.write_text(text, encoding="utf-8")
    new_path.replace(path)


def redact_recording(recording: str, redact: Redactor) -> str:
    """Return a recording without secrets, also without those that several events contain together."""
    rows = recording.splitlines()
    events = [_parse_event(row) for row in rows]
    texts = [event[2] if event is not None and event[1] == "o" else "" for event in events]
    pieces = redact.redact_pieces("".join(texts), list(accumulate(map(len, texts), initial=0))) if texts else []
    lines = []
    for row, event, text, piece in zip(rows, events, texts, pieces):  # noqa: B905
        if event is None:  # the header line, or a line that was cut off
            lines.append(redact(row))
        elif event[1] != "o":
            lines.append(json.dumps([event[0], event[1], redact(event[2])]))
        elif piece or not text:
            # An event may begin with a secret that follows a word of the event before it.
            lines.append(json.dumps([event[0], "o", redact(piece)]))
    return "\n".join(lines) + "\n"


def _parse_event(row: str) -> tuple[float, str, str] | None:
    """Return the time, the kind and the text of an event, or None when the row is no event."""
    try:
        values = json.loads(row)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or len(values) != 3:
        return None
    seconds, kind, text = values
    if isinstance(seconds, (int, float)) and isinstance(kind, str) and isinstance(text, str):
        return seconds, kind, text
    return None
