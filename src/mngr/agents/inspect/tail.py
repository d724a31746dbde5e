"""Lines that are added to files on a host, as they come."""

from __future__ import annotations

import os
import time

from mngr.base import file_descriptors
from mngr.base.shell import DEVNULL, PIPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mngr.host.protocol import Host


class Tail:
    """Follows files by name, from their last `lines`, or from the first when that is None."""

    def __init__(self, host: Host, paths: list[str], lines: int | None = None) -> None:
        start = "+1" if lines is None else str(lines)
        # It ends with its input, for not every connection that ends is felt by what writes to it.
        script = 'tail -q -n "$0" -F -- "$@" 2>/dev/null & cat >/dev/null; kill $! 2>/dev/null; wait'
        self._process = host.stream(["sh", "-c", script, start, *paths], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
        self._half = b""
        assert self._process.stdout is not None
        self.fd = self._process.stdout.fileno()

    def read(self) -> list[bytes] | None:
        """The lines that are complete now; None at the end. Blocks when nothing is there."""
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
    """Several tails, read together."""

    def __init__(self) -> None:
        self._open: list[Tail] = []

    def add(self, tail: Tail) -> None:
        """Read this one too."""
        self._open.append(tail)

    def wait(self, seconds: float) -> list[bytes]:
        """The lines that came first, or nothing after so many seconds."""
        if not self._open:
            time.sleep(seconds)
            return []
        ready = file_descriptors.wait_readable([tail.fd for tail in self._open], seconds)
        found: list[bytes] = []
        for tail in [t for t in self._open if t.fd in ready]:
            lines = tail.read()
            if lines is None:
                self._open.remove(tail)
                tail.close()
            else:
                found.extend(lines)
        return found

    def close(self) -> None:
        """Stop all."""
        for tail in self._open:
            tail.close()
        self._open.clear()


def iter_lines(tails: TailGroup) -> Iterator[list[bytes]]:
    """Lines as they come; an empty list at least once a second, so that the caller can look around."""
    last = time.monotonic()
    while True:
        lines = tails.wait(last + 1.0 - time.monotonic())
        if lines:
            yield lines
        if time.monotonic() >= last + 1.0:
            last = time.monotonic()
            yield []
