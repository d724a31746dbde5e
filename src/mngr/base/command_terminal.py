"""Gives a command its own terminal, with the size and the settings of the user's terminal."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
import tty
from types import FrameType
from typing import NoReturn


class UserTerminal:
    """Opens the command's terminal. While it is entered, the user's terminal passes each key on."""

    def __init__(self, fds: list[int]) -> None:
        self.fds = tuple(fds)  # the standard streams that are the user's terminal
        self.output_fd = next((fd for fd in (1, 2) if fd in self.fds), 0)
        # A background job must not read from the terminal.
        self.has_input = 0 in self.fds and os.tcgetpgrp(0) == os.getpgrp()
        self.main_fd, self._command_fd = os.openpty()
        self.path = os.ttyname(self._command_fd)
        self._settings = termios.tcgetattr(self.fds[0])
        self._old_handlers: dict[int, object] = {}

    def __enter__(self) -> UserTerminal:
        settings = termios.tcgetattr(self.fds[0])
        if not self.has_input:
            settings[1] &= ~termios.OPOST  # The user's terminal still converts line ends.
        termios.tcsetattr(self._command_fd, termios.TCSANOW, settings)
        self._copy_size()
        self._old_handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, self._copy_size)
        if self.has_input:
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._old_handlers[number] = signal.signal(number, _exit_by_signal)
            tty.setraw(0, termios.TCSADRAIN)
        return self

    def __exit__(self, *_: object) -> None:
        if self.has_input:
            termios.tcsetattr(0, termios.TCSADRAIN, self._settings)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self.close_command_end()
        os.close(self.main_fd)

    def close_command_end(self) -> None:
        """Close this process's copy of the command's end, so that its last user ends the terminal."""
        if self._command_fd >= 0:
            os.close(self._command_fd)
            self._command_fd = -1

    def _copy_size(self, *_: object) -> None:
        """Give the command's terminal the size of the user's."""
        size = fcntl.ioctl(self.fds[0], termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(self.main_fd, termios.TIOCSWINSZ, size)


def _exit_by_signal(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
