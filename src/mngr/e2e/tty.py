"""A program in a terminal of its own: keys go in, the screen can be read, all of it is recorded."""

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
from collections.abc import Callable, Mapping
from pathlib import Path

from mngr.e2e.cast import CastRecorder
from mngr.e2e.process import has_ended
from mngr.e2e.result import CommandOutput, CommandTimeout, OutputOrigin

KEY_SEQUENCES = {
    "Enter": "\r", "Tab": "\t", "Escape": "\x1b", "Space": " ", "Backspace": "\x7f", "Delete": "\x1b[3~",
    "Up": "\x1b[A", "Down": "\x1b[B", "Right": "\x1b[C", "Left": "\x1b[D", "Home": "\x1b[H", "End": "\x1b[F",
    "PageUp": "\x1b[5~", "PageDown": "\x1b[6~", "Insert": "\x1b[2~", "BackTab": "\x1b[Z",
    **{f"F{n}": key for n, key in enumerate(["\x1bOP", "\x1bOQ", "\x1bOR", "\x1bOS"], 1)},
}  # fmt: skip


class Tty:
    """`with e2e.tty("program") as terminal:`; closing it ends the program."""

    def __init__(
        self,
        argv: list[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        size: tuple[int, int],
        cast: Path,
        scene: OutputOrigin,
        say: Callable[[str, str], None],
        timeout: float,
    ) -> None:
        import pyte

        self.name = cast.stem
        self._scene = scene
        self._say = say
        self._timeout = timeout
        self._code: int | None = None
        self._changed = threading.Condition()
        self._screen = pyte.Screen(size[1], size[0])
        self._stream = pyte.ByteStream(self._screen)
        self._cast = CastRecorder(cast, size, scene.redact(scene.command), scene.redact)
        self._fd, end = os.openpty()
        self._set_size(*size)
        variables = {key: value for key, value in env.items() if key not in ("COLUMNS", "LINES")}
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *argv], cwd=cwd, env=variables, stdin=end, stdout=end, stderr=end
        )
        os.close(end)
        self._reader = threading.Thread(target=self._read_output, daemon=True)
        self._reader.start()

    def __enter__(self) -> Tty:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a person does.

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._say("# ", f"[{self.name}] typed {text!r}")
        self._send_keys(text)

    def press(self, *keys: str) -> None:
        """Press keys by name: Enter, Up, C-c, M-x, F1; each by itself."""
        self._say("# ", f"[{self.name}] pressed {' '.join(keys)}")
        for number, key in enumerate(keys):
            if number:
                time.sleep(0.01)  # some programs take keys that come together for a paste
            self._send_keys(_encode_key(key))

    def resize(self, rows: int, columns: int) -> None:
        """Make the terminal larger or smaller."""
        self._say("# ", f"[{self.name}] resized to {columns}x{rows}")
        with self._changed:
            self._screen.resize(rows, columns)
        self._set_size(rows, columns)
        self._cast.record_resize(rows, columns)

    # What a person sees.

    def screen(self) -> CommandOutput:
        """What the terminal shows now, without white space at the ends of lines and of the screen."""
        with self._changed:
            rows = [row.rstrip() for row in self._screen.display]
        return CommandOutput("\n".join(rows).rstrip("\n"), self._scene)

    def wait_for(self, pattern: str, timeout: float | None = None) -> CommandOutput:
        """The screen, once a text or a regular expression is on it; CommandTimeout shows the screen as it is."""
        __tracebackhide__ = True
        limit = self._timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        while True:
            has_ended = not self._reader.is_alive()  # before the look: what is shown last counts
            shown = self.screen()
            if pattern in shown or _is_match(pattern, shown):
                return shown
            with self._changed:
                left = deadline - time.monotonic()
                if left > 0 and not has_ended:
                    self._changed.wait(min(left, 0.1))
                    continue
            why = "the program has ended" if has_ended else f"it was not shown within {limit:g}s"
            self._say("# ", f"[{self.name}] waited for {pattern!r} in vain")
            message = f"$ {self._scene.command}\n{pattern!r}: {why}. The screen:\n{_draw_frame(shown)}"
            raise CommandTimeout(self._scene.redact(message))

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once the program has ended; CommandTimeout when it does not."""
        __tracebackhide__ = True
        limit = self._timeout if timeout is None else timeout
        try:
            code = self._process.wait(limit)
        except subprocess.TimeoutExpired:
            message = (
                f"$ {self._scene.command}\ndid not end within {limit:g}s. The screen:\n{_draw_frame(self.screen())}"
            )
            raise CommandTimeout(self._scene.redact(message)) from None
        self._reader.join(2)
        self._record_exit(code if code >= 0 else 128 - code)
        assert self._code is not None
        return self._code

    def close(self) -> None:
        """End the program and everything in its terminal."""
        if self._code is None:
            if self._process.returncode is None:  # its number is its own until it is waited for
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

    # How it works.

    def _record_exit(self, code: int) -> None:
        if self._code is None:
            self._code = code
            for row in self.screen().split("\n"):
                self._say("  ", row)
            self._say("? ", str(code))

    def _send_keys(self, text: str) -> None:
        self._cast.record_keys(text)
        left = text.encode()
        while left:
            left = left[os.write(self._fd, left) :]

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
    raise ValueError(
        f"there is no key {name!r}; there are: {', '.join(KEY_SEQUENCES)}, C-x, M-x, and single characters"
    )


def _is_match(pattern: str, text: str) -> bool:
    try:
        return re.search(pattern, text, re.MULTILINE) is not None
    except re.error:
        return False


def _draw_frame(text: str) -> str:
    return "\n".join(f"  | {row}" for row in text.split("\n"))
