"""Runs a command that gets none of this process's descriptors: only pipes, and its own terminal in place of the user's.

A program in a sandbox could reopen a descriptor through /proc and so read or replace the user's file behind it.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import tty

from mngr.base import shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType
    from typing import NoReturn

_CHUNK_BYTES = 1 << 16


def run_with_own_streams(argv: Sequence[str], env: Mapping[str, str] | None = None) -> int:
    """Run a command, copy its streams from and to this process's streams, and return its exit code."""
    terminal_fds = [fd for fd in (0, 1, 2) if os.isatty(fd)]
    if not terminal_fds:
        return _Relay().run(argv, env)
    with UserTerminal(terminal_fds) as terminal:
        return _Relay(terminal).run(argv, env)


class _Relay:
    """The pipes between this process's streams and a command's."""

    def __init__(self, terminal: UserTerminal | None = None) -> None:
        self._terminal = terminal
        self._outputs: dict[int, int] = {}  # the descriptor to read from: the descriptor of this process to write to
        self._input_fd = -1  # leads to the command
        self._pending = b""  # the input that the command has not taken yet
        self._poll = select.poll()

    def run(self, argv: Sequence[str], env: Mapping[str, str] | None) -> int:
        """Run the command and return its exit code."""
        streams = self._open_streams()
        try:
            child = shell.spawn(argv, streams, env, is_leader=False, terminal=self._get_terminal_path())
        finally:
            for fd in streams:
                if fd >= 0:
                    os.close(fd)
        if self._terminal is not None:
            self._terminal.close_command_end()
        try:
            self._copy()
        except BaseException:
            child.kill()
            raise
        finally:
            for fd in {*self._outputs, self._input_fd} - {-1}:
                os.close(fd)
        return child.wait()

    def _get_terminal_path(self) -> str:
        return "" if self._terminal is None else self._terminal.path

    def _open_streams(self) -> tuple[int, int, int]:
        """Return the descriptors of the command, -1 for its terminal, and remember the other ends."""
        ends = [-1, -1, -1]
        terminal_fds = () if self._terminal is None else self._terminal.fds
        if 0 not in terminal_fds:
            ends[0], self._input_fd = os.pipe()
        for fd in (1, 2):
            if fd not in terminal_fds:
                source, ends[fd] = os.pipe()
                self._outputs[source] = fd
        if self._terminal is not None:
            self._outputs[os.dup(self._terminal.main_fd)] = self._terminal.output_fd
            if self._terminal.has_input:
                self._input_fd = os.dup(self._terminal.main_fd)
        return ends[0], ends[1], ends[2]

    def _copy(self) -> None:
        """Copy until the command has closed its output."""
        for fd in self._outputs:
            self._poll.register(fd, select.POLLIN)
        if self._input_fd >= 0:
            os.set_blocking(self._input_fd, False)
            self._watch_input()
        while self._outputs:
            for fd, events in self._poll.poll():
                if fd in self._outputs:
                    self._copy_output(fd)
                elif fd == self._input_fd and fd >= 0:
                    self._send_input(events)
                elif fd == 0 and self._input_fd >= 0:
                    self._read_input()

    def _watch_input(self) -> None:
        """Wait for new input, or while there is some, until the command takes it."""
        is_terminal = self._terminal is not None and self._terminal.has_input
        if self._pending:
            self._poll.register(self._input_fd, select.POLLOUT)
        elif is_terminal:
            self._unregister(self._input_fd)  # Its end is seen as the end of the output.
        else:
            self._poll.register(self._input_fd, 0)  # reports that the command has closed its input
        if self._pending:
            self._unregister(0)
        else:
            self._poll.register(0, select.POLLIN)

    def _unregister(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass

    def _read_input(self) -> None:
        try:
            self._pending = os.read(0, _CHUNK_BYTES)
        except OSError:
            self._pending = b""
        if self._pending:
            self._send_input(select.POLLOUT)
        else:
            self._close_input()

    def _send_input(self, events: int) -> None:
        if not events & select.POLLOUT:
            self._close_input()
            return
        try:
            self._pending = self._pending[os.write(self._input_fd, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            self._close_input()
            return
        self._watch_input()

    def _close_input(self) -> None:
        self._unregister(0)
        self._unregister(self._input_fd)
        os.close(self._input_fd)
        self._input_fd = -1

    def _copy_output(self, fd: int) -> None:
        """Copy one part of the output. If nobody reads it, close the pipe, so that the command gets SIGPIPE."""
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:  # The command has discarded its output since the poll.
            return
        except OSError:  # A terminal ends with an error.
            data = b""
        if not data or not _write_all(self._outputs[fd], data):
            self._unregister(fd)
            del self._outputs[fd]
            os.close(fd)


def _write_all(fd: int, data: bytes) -> bool:
    """Write all data, also to a descriptor that does not block. Return False when nobody can read it."""
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(fd, remaining) :]
        except BlockingIOError:
            select.select([], [fd], [])
        except OSError:
            return False
    return True


class UserTerminal:
    """Opens the command's own terminal, with the size and the settings of the user's terminal. While it is entered, the user's terminal passes each key on."""

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
