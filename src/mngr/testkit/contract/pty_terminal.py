"""Runs a program in a real pty, as a person at a terminal would."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

import pytest


class PtyTerminal:
    """Runs a program in its own terminal and reads its output. Use it as `with PtyTerminal(argv, …) as terminal:`."""

    def __init__(
        self, argv: list[str], cwd: Path, env: Mapping[str, str], *, rows: int = 30, columns: int = 100
    ) -> None:
        self.shown = ""
        self._fd, program_fd = os.openpty()
        self.resize(rows, columns)
        command = ["setsid", "--ctty", *argv]
        self.process = subprocess.Popen(
            command, cwd=cwd, env=dict(env), stdin=program_fd, stdout=program_fd, stderr=program_fd
        )
        os.close(program_fd)

    def __enter__(self) -> PtyTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, *keys: str) -> None:
        """Type the keys with a pause between them, because tmux treats keys within a millisecond as a paste."""
        for number, key in enumerate(keys):
            time.sleep(0.01 if number else 0)
            os.write(self._fd, key.encode())

    def count_unread(self) -> int:
        """Return the number of bytes that have arrived and are not read yet."""
        return int(struct.unpack("i", fcntl.ioctl(self._fd, termios.FIONREAD, bytes(4)))[0])

    def wait_for_text(self, text: str, timeout: float = 20.0) -> str:
        """Wait until `text` is shown, and return everything up to it. Later calls look only at what follows."""
        deadline = time.monotonic() + timeout
        while text not in self.shown:
            if not self._read_output(deadline - time.monotonic()):
                pytest.fail(f"the terminal did not show {text!r}, but:\n{self.shown}")
        before, _, self.shown = self.shown.partition(text)
        return before + text

    def wait_for_exit(self, timeout: float = 20.0) -> int:
        """Wait until the program ends, and return its exit code."""
        deadline = time.monotonic() + timeout
        while self._read_output(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def read_raw(self, timeout: float = 20.0) -> bytes:
        """Return the next bytes with their escape sequences, or nothing after the end or the timeout."""
        if not select.select([self._fd], [], [], max(0.0, timeout))[0]:
            return b""
        try:
            return os.read(self._fd, 65536)
        except OSError:  # the other end is closed
            return b""

    def _read_output(self, timeout: float) -> bool:
        data = self.read_raw(timeout)
        self.shown += re.sub(
            r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[()].|[=>78])", "", data.decode("utf-8", "replace")
        )
        return bool(data)
