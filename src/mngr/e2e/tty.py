"""Runs a program in its own terminal: a test sends keys, reads the screen, and gets a recording."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

from mngr.e2e.asciicast import CastRecorder
from mngr.e2e.result import CommandOutput, CommandTimeout, OutputOrigin
from mngr.e2e.run_command import Program, has_ended

KEY_SEQUENCES = {
    "Enter": "\r",
    "Tab": "\t",
    "Escape": "\x1b",
    "Space": " ",
    "Backspace": "\x7f",
    "Delete": "\x1b[3~",
    "Up": "\x1b[A",
    "Down": "\x1b[B",
    "Right": "\x1b[C",
    "Left": "\x1b[D",
    "Home": "\x1b[H",
    "End": "\x1b[F",
    "PageUp": "\x1b[5~",
    "PageDown": "\x1b[6~",
    "Insert": "\x1b[2~",
    "BackTab": "\x1b[Z",
    **{f"F{n}": key for n, key in enumerate(["\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS"], 1)},
}


class Tty:
    """Use it as `with e2e.tty("program") as terminal:`. Closing the terminal ends the program."""

    def __init__(
        self,
        program: Program,
        *,
        size: tuple[int, int],
        cast: Path,
        origin: OutputOrigin,
        write_line: Callable[[str, str], None],
        timeout: float,
    ) -> None:
        import pyte

        self.name = cast.stem
        self._scene = origin
        self._say = write_line
        self._timeout = timeout
        self._code: int | None = None
        self._changed = threading.Condition()
        self._screen = pyte.Screen(size[1], size[0])
        self._stream = pyte.ByteStream(self._screen)
        self._cast = CastRecorder(cast, size, origin.redact(origin.command), origin.redact)
        self._fd, program_fd = os.openpty()
        self._set_size(*size)
        variables = {key: value for key, value in program.env.items() if key not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *program.argv],
            cwd=program.cwd,
            env=variables,
            stdin=program_fd,
            stdout=program_fd,
            stderr=program_fd,
        )
        os.close(program_fd)
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()

    def __enter__(self) -> Tty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def began(self) -> float:
        """The time at which the recording begins, by the clock of `time.monotonic`."""
        return self._cast.began

    # Input.

    def type(self, text: str) -> None:
        """Type a text."""
        self._say("# ", f"[{self.name}] typed {text!r}")
        self._send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, by name: Enter, Up, C-c, M-x, F1."""
        self._say("# ", f"[{self.name}] pressed {' '.join(keys)}")
        for key in keys:
            time.sleep(0.01)  # Some programs treat keys that arrive right after others as a paste.
            self._send_keys(_encode_key(key))

    def resize(self, rows: int, columns: int) -> None:
        """Change the size of the terminal."""
        self._say("# ", f"[{self.name}] resized to {columns}x{rows}")
        with self._changed:
            self._screen.resize(rows, columns)
        self._set_size(rows, columns)
        self._cast.record_resize(rows, columns)

    # Output.

    def screen(self) -> CommandOutput:
        """Return the text on the screen, without trailing white space and empty lines."""
        with self._changed:
            rows = [row.rstrip() for row in self._screen.display]
        return CommandOutput("\n".join(rows).rstrip("\n"), self._scene)

    def wait_for(self, pattern: str, timeout: float | None = None) -> CommandOutput:
        """Return the screen once it shows a text or regular expression. Raise CommandTimeout otherwise."""
        __tracebackhide__ = True
        time_limit = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + time_limit
        while True:
            # Checked before reading the screen, so that the last output counts.
            has_ended = not self._reader.is_alive()
            screen = self.screen()
            if pattern in screen or _is_match(pattern, screen):
                return screen
            with self._changed:
                remaining = deadline - time.monotonic()
                if remaining > 0 and not has_ended:
                    self._changed.wait(min(remaining, 0.1))
                    continue
            when = "before the program ended" if has_ended else f"within {time_limit:g}s"
            self._say("# ", f"[{self.name}] waited for {pattern!r}, which did not appear")
            message = f"$ {self._scene.command}\nThe screen did not show {pattern!r} {when}. The screen:\n{_draw_frame(screen)}"
            raise CommandTimeout(self._scene.redact(message))

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once the program has ended. Raise CommandTimeout otherwise."""
        __tracebackhide__ = True
        time_limit = self._timeout if timeout is None else timeout
        try:
            code = self._process.wait(time_limit)
        except subprocess.TimeoutExpired:
            message = f"$ {self._scene.command}\nThe command did not finish within {time_limit:g}s. The screen:\n{_draw_frame(self.screen())}"
            raise CommandTimeout(self._scene.redact(message)) from None
        self._reader.join(2)
        self._record_exit(code if code >= 0 else 128 - code)
        assert self._code is not None
        return self._code

    def close(self) -> None:
        """End the program and everything in its terminal."""
        if self._code is None:
            if self._process.returncode is None:  # Its pid is not reused until it is reaped.
                os.killpg(self._process.pid, signal.SIGHUP)
                deadline = time.monotonic() + 1
                while not has_ended(self._process) and time.monotonic() < deadline:
                    time.sleep(0.01)
                os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait()
            self._record_exit(code if code >= 0 else 128 - code)
        if self._fd >= 0:
            self._reader.join(1)
            os.close(self._fd)
            self._fd = -1
        self._cast.close()

    # Internals.

    def _record_exit(self, code: int) -> None:
        if self._code is None:
            self._code = code
            for row in self.screen().split("\n"):
                self._say("  ", row)
            self._say("? ", str(code))

    def _send_keys(self, text: str) -> None:
        self._cast.record_keys(text)
        unsent = text.encode()
        while unsent:
            unsent = unsent[os.write(self._fd, unsent) :]

    def _set_size(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _read_output(self) -> None:
        fd = self._fd
        while True:
            try:
                ready = select.select([fd], [], [], 0.2)[0]
                if not ready and has_ended(self._process):
                    break
                data = os.read(fd, 65536) if ready else None
            except (OSError, ValueError) as error:
                if isinstance(error, OSError) and error.errno not in (errno.EIO, errno.EBADF):
                    raise
                break
            if data is None:
                continue
            if not data:
                break
            self._cast.record_output(data)
            with self._changed:
                self._stream.feed(data)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def _encode_key(name: str) -> str:
    if name in KEY_SEQUENCES:
        return KEY_SEQUENCES[name]
    if name.startswith("C-") and len(name) == 3:
        return chr(ord(name[2].upper()) ^ 0x40)
    if name.startswith("M-") and len(name) > 2:
        return "\x1b" + _encode_key(name[2:])
    if len(name) == 1:
        return name
    raise ValueError(f"unknown key {name!r}; use {', '.join(KEY_SEQUENCES)}, C-x, M-x or a single character")


def _is_match(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text, re.MULTILINE) is not None
    except re.error:
        return False


def _draw_frame(text: str) -> str:
    return "\n".join(f"  | {row}" for row in text.split("\n"))
