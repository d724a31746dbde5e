"""Follows files on a host and reads the lines that are added to them."""

from __future__ import annotations

import os
import time

from mngr.base.python_process import many_open_files
from mngr.base.shell import DEVNULL, PIPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mngr.host.protocol import Host

MAX_LINE_BYTES = 16 * 1024 * 1024  # An agent or a host can write a line that never ends.


class Tail:
    """Follows files by name, starting with their last `lines` lines, or with the first line when `lines` is None.

    A line that is longer than `MAX_LINE_BYTES` is cut.
    """

    def __init__(self, host: Host, paths: list[str], lines: int | None = None) -> None:
        start = "+1" if lines is None else str(lines)
        # The script ends with its input, because a program that writes does not always notice a lost connection.
        script = 'tail -q -n "$0" -F -- "$@" 2>/dev/null & cat >/dev/null; kill $! 2>/dev/null; wait'
        self._process = host.stream(["sh", "-c", script, start, *paths], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        self._half = bytearray()  # the beginning of a line whose end has not arrived
        self.cut_lines = 0  # the number of lines that were cut
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()

    def wait_for_lines(self) -> list[bytes] | None:
        """Return the complete lines that have arrived, or None at the end. Block until there is data."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            return None
        *ends, start = data.split(b"\n")
        lines = [self._end_line(end) for end in ends]
        self._add_piece(start)
        return lines

    def _end_line(self, end: bytes) -> bytes:
        """Return the line that ends with this piece."""
        self._add_piece(end)
        line = bytes(self._half)
        self._half.clear()
        return line

    def _add_piece(self, piece: bytes) -> None:
        """Add a piece to the line whose end has not arrived. Drop everything after the limit."""
        free_bytes = MAX_LINE_BYTES + 1 - len(self._half)
        if 0 < free_bytes <= len(piece):
            self.cut_lines += 1
        self._half += piece[:free_bytes]

    def close(self) -> None:
        """Stop following."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class TailGroup:
    """Several tails that are read together. `note` receives a message for the user when a line was cut."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._open: list[Tail] = []
        self._note = note

    def add(self, tail: Tail) -> None:
        """Add a tail to the group."""
        self._open.append(tail)

    def wait(self, seconds: float) -> list[bytes]:
        """Return the next lines of any tail, or an empty list after this many seconds."""
        if not self._open:
            time.sleep(seconds)
            return []
        ready = many_open_files.wait_readable([tail.fd for tail in self._open], seconds)
        new_lines: list[bytes] = []
        for tail in [tail for tail in self._open if tail.fd in ready]:
            cut_before = tail.cut_lines
            lines = tail.wait_for_lines()
            if tail.cut_lines > cut_before:
                self._note(f"a line of more than {MAX_LINE_BYTES >> 20} MB is not shown")
            if lines is None:
                self._open.remove(tail)
                tail.close()
            else:
                new_lines.extend(lines)
        return new_lines

    def close(self) -> None:
        """Stop following all files."""
        for tail in self._open:
            tail.close()
        self._open.clear()


def iter_lines(tails: TailGroup) -> Iterator[list[bytes]]:
    """Yield lines as they arrive, and an empty list at least once a second so that the caller can do other checks."""
    last_check = time.monotonic()
    while True:
        lines = tails.wait(last_check + 1.0 - time.monotonic())
        if lines:
            yield lines
        if time.monotonic() >= last_check + 1.0:
            last_check = time.monotonic()
            yield []
