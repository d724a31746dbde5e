"""Writes the transcript of a test, line by line, while it runs."""

from __future__ import annotations

import codecs
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mngr.e2e.redact_secrets import Redactor

STREAM_MARKS = {"out": "  ", "err": "! "}
# Characters of a command's output that are written, from its beginning and its end.
HEAD, TAIL = (
    1_000_000,
    64_000,
)
_VISIBLE_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127) if chr(code) not in "\t\n"}


class Transcript:
    """Marks each line: `# ` comment, `$ ` command, two spaces output, `! ` errors, `? ` exit code."""

    def __init__(self, path: Path, redact: Redactor) -> None:
        self.path = path
        self.redact = redact
        self._lock = threading.Lock()
        self._file = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)
        self._line_count = 0  # lines that end

    def write_line(self, mark: str, text: str) -> int:
        """Write a text with `mark` before each of its lines. Return the number of its first line, counted from 0."""
        rows = self.redact(text).translate(_VISIBLE_CONTROLS).split("\n")
        return self._write("".join(f"{mark}{row}".rstrip() + "\n" for row in rows))

    def _write(self, text: str) -> int:
        with self._lock:
            line = self._line_count
            self._file.write(text)
            self._file.flush()
            self._line_count += text.count("\n")
            return line

    def open_output(self) -> TranscriptOutput:
        """Return a writer for the output of one command."""
        return TranscriptOutput(self.redact, self._write)

    def read_tail(self, lines: int = 30) -> str:
        """Return the last lines."""
        with self.path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16_000))
            return "\n".join(file.read().decode("utf-8", "replace").splitlines()[-lines:])

    def close(self) -> None:
        self._file.close()


class TranscriptOutput:
    """Writes both streams of one command in the order of arrival, and leaves out the middle of a long output."""

    def __init__(self, redact: Redactor, write: Callable[[str], object]) -> None:
        self._redact = redact
        self._put = write
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("backslashreplace") for name in STREAM_MARKS}
        self._held = ""  # the unfinished line
        self._stream: str | None = None  # the stream of that line
        self._begun = False  # True when a part of that line is already written
        self._left = HEAD
        self._rest: deque[tuple[str, str]] = deque()  # the latest output after HEAD characters
        self._size = 0  # characters in _rest
        self._dropped = 0

    def add_output(self, stream: str, data: bytes) -> None:
        """Add output. Whole lines are written at once; `flush_partial_line` writes the rest."""
        text = self._decoders[stream].decode(data)
        if text and self._left > 0:
            self._add_text(stream, text)
        elif text:
            self._rest.append((stream, text))
            self._size += len(text)
            while self._size - len(self._rest[0][1]) > TAIL:
                self._drop_characters(len(self._rest[0][1]))

    def _add_text(self, stream: str, text: str) -> None:
        if stream != self._stream:
            self._end_line()
            self._stream = stream
        self._held += text
        end = self._held.rfind("\n") + 1
        if end:  # A private key may span several lines.
            end = self._held.rfind("\n", 0, self._redact.find_open_secret(self._held[:end])) + 1
        if end:
            self._write(self._format_text(self._held[: end - 1]) + "\n")
            self._begun = False
            self._held = self._held[end:]
        if len(self._held) > TAIL:
            self._write_pending(len(self._held))  # The line may never end.

    def _drop_characters(self, count: int) -> None:
        """Drop the first `count` characters of the rest. They must not exceed its first piece."""
        stream, text = self._rest.popleft()
        if count < len(text):
            self._rest.appendleft((stream, text[count:]))
        self._size -= count
        self._dropped += count

    def flush_partial_line(self) -> None:
        """Write also an unfinished line, such as a question, but never a part of a secret."""
        if self._held:
            self._write_pending(self._redact.find_open_secret(self._held))

    def _write_pending(self, end: int) -> None:
        if end:
            self._write(self._format_text(self._held[:end]))
            self._begun = True
            self._held = self._held[end:]

    def finish(self) -> None:
        """Write the remaining output. No more will follow."""
        for stream, decoder in self._decoders.items():
            if rest := decoder.decode(b"", final=True):
                self.add_output(stream, rest.encode())
        self._end_line()
        if self._dropped:
            self._drop_characters(max(0, self._size - TAIL))
            self._drop_characters(self._rest[0][1].find("\n") + 1)  # up to the beginning of a line
            self._put(f"  [{self._dropped} characters omitted]\n")
        for stream, text in self._rest:
            self._add_text(stream, text)
        self._end_line()

    def _end_line(self) -> None:
        self._write_pending(len(self._held))
        if self._begun:
            self._write("\n")
            self._begun = False

    def _format_text(self, text: str) -> str:
        assert self._stream is not None
        mark = STREAM_MARKS[self._stream]
        text = self._redact(text)
        if not text.isprintable():
            text = text.replace("\r\n", "\n").removesuffix("\r").translate(_VISIBLE_CONTROLS)
        return ("" if self._begun else mark) + text.replace("\n", f"\n{mark}")

    def _write(self, text: str) -> None:
        self._left -= len(text)
        self._put(text)
