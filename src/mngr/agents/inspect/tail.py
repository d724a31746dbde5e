"""Follows files on a host and reads the lines that are added to them."""

from __future__ import annotations

import os
import time

from mngr.base import many_open_files
from mngr.base.shell import DEVNULL, PIPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mngr.host.protocol import Host


class Tail:
    """Follows files by name, starting with their last `lines` lines, or with the first line when `lines` is None."""

    def __init__(self, host: Host, paths: list[str], lines: int | None = None) -> None:
        start = "+1" if lines is None else str(lines)
        # The script ends with its input, because a program that writes does not always notice a lost connection.
        script = 'tail -q -n "$0" -F -- "$@" 2>/dev/null & cat >/dev/null; kill $! 2>/dev/null; wait'
        self._process = host.stream(["sh", "-c", script, start, *paths], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        self._half = b""
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()

    def wait_for_lines(self) -> list[bytes] | None:
        """Return the complete lines that have arrived, or None at the end. Block until there is data."""
        data = os.read(self.fd, 1 << 16)
        if not data:
            return None
        *lines, self._half = (self._half + data).split(b"\n")
        return lines

    def close(self) -> None:
        """Stop following."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


class TailGroup:
    """Several tails that are read together."""

    def __init__(self) -> None:
        self._open: list[Tail] = []

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
            lines = tail.wait_for_lines()
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
