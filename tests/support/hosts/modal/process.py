"""Processes whose output can be read from any offset, as Modal allows its clients."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import subprocess
import termios
import time
from collections.abc import AsyncIterator

from grpclib import Status  # type: ignore[import-not-found, unused-ignore]

from tests.support.hosts.modal.rpc import fail

WINDOW = 8 << 20  # bytes of unread output that are kept, and as many of read output
HELD = 1.0  # seconds that a stream stays open after the exit, when a daemon holds it


class Output:
    """One output stream, kept from some offset on."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = bytearray()
        self._start = 0  # the offset of the first byte
        self._read = 0  # the offset up to which it was read
        self.ended = fd < 0
        self.changed = asyncio.Event()
        if fd >= 0:
            os.set_blocking(fd, False)
            self._listen(True)

    def _listen(self, on: bool) -> None:
        loop = asyncio.get_running_loop()
        if on and not self.ended:
            loop.add_reader(self._fd, self._take)
        elif not self.ended:
            loop.remove_reader(self._fd)

    def _take(self) -> None:
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return
        except OSError:  # a terminal without a process
            data = b""
        self._data += data
        if not data:
            self.close()
        elif self._start + len(self._data) - self._read > WINDOW:
            self._listen(False)
        self.kick()

    def kick(self) -> None:
        """Wake everyone who waits for output."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def portion(self, offset: int) -> bytes:
        """Return the output from an offset on."""
        if offset < self._start:
            fail(Status.OUT_OF_RANGE, "that output is not kept any more")
        start = offset - self._start
        data = bytes(self._data[start : start + (1 << 20)])
        self._read = max(self._read, offset + len(data))
        if (excess := self._read - WINDOW - self._start) > WINDOW:
            del self._data[:excess]
            self._start += excess
        self._listen(True)
        return data

    def close(self) -> None:
        """Mark the end of the output."""
        if not self.ended:
            self._listen(False)
            self.ended = True
            os.close(self._fd)


class Process:
    """One process, with a terminal of `size` if it is given."""

    def __init__(self, argv: list[str], size: tuple[int, int] | None = None, pass_fds: tuple[int, ...] = ()) -> None:
        self.code: int | None = None
        self.taken = 0  # bytes of input that were written
        self.input_closed = False
        self._ended = 0.0
        loop = asyncio.get_running_loop()
        if size is None:
            pipe = subprocess.PIPE
            self._child = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, pass_fds=pass_fds
            )
            assert self._child.stdin and self._child.stdout and self._child.stderr
            self._input = os.dup(self._child.stdin.fileno())
            fds = [os.dup(stream.fileno()) for stream in (self._child.stdout, self._child.stderr)]
            for stream in (self._child.stdin, self._child.stdout, self._child.stderr):
                stream.close()
        else:
            own_fd, program_fd = os.openpty()
            window_size = struct.pack("HHHH", size[0] or 24, size[1] or 80, 0, 0)
            fcntl.ioctl(program_fd, termios.TIOCSWINSZ, window_size)
            self._child = subprocess.Popen(
                ["setsid", "--ctty", *argv], stdin=program_fd, stdout=program_fd, stderr=program_fd
            )
            os.close(program_fd)
            self._input, fds = os.dup(own_fd), [own_fd, -1]
        self._is_terminal = size is not None
        os.set_blocking(self._input, False)
        self.output = {1: Output(fds[0]), 2: Output(fds[1])}
        # The streams do not show the exit, because a daemon may hold them open forever.
        self._watch = os.pidfd_open(self._child.pid)
        loop.add_reader(self._watch, self._exit)
        self._done = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._child.pid

    def _exit(self) -> None:
        self.code = self._child.poll()
        if self.code is None:
            return
        asyncio.get_running_loop().remove_reader(self._watch)
        os.close(self._watch)
        self._ended = time.monotonic()
        self._end_input()
        self._done.set()
        for stream in self.output.values():
            stream.kick()

    async def wait(self) -> int:
        """Return the exit code, negative for a signal."""
        await self._done.wait()
        assert self.code is not None
        return self.code

    async def read(self, stream: int, offset: int) -> AsyncIterator[bytes]:
        """Yield the output from an offset on until it ends, or until shortly after the exit if a daemon holds it."""
        source = self.output[stream]
        while True:
            changed = source.changed
            data = source.portion(offset)
            if data:
                offset += len(data)
                yield data
            elif source.ended or (self.code is not None and time.monotonic() - self._ended > HELD):
                source.close()
                return
            else:
                try:
                    await asyncio.wait_for(changed.wait(), 0.2 if self.code is not None else None)
                except TimeoutError:
                    pass

    async def write(self, offset: int, data: bytes, last: bool) -> None:
        """Write input from an offset on, without the part that was already written."""
        data = data[max(0, self.taken - offset) :]
        if self.input_closed and data:
            fail(Status.FAILED_PRECONDITION, "the input is closed")
        while data:
            try:
                count = os.write(self._input, data)
            except BlockingIOError:
                await self._room()
                continue
            except OSError:
                self._end_input()
                fail(Status.FAILED_PRECONDITION, "nobody reads the input")
            data = data[count:]
            self.taken += count
        if last and not self.input_closed:
            if self._is_terminal:
                os.write(self._input, b"\x04")
            else:
                self._end_input()

    async def _room(self) -> None:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(self._input, ready.set)
        try:
            while not ready.is_set() and self.code is None:
                try:
                    await asyncio.wait_for(ready.wait(), 0.5)
                except TimeoutError:
                    pass
        finally:
            if not self.input_closed:
                loop.remove_writer(self._input)

    def _end_input(self) -> None:
        if not self.input_closed:
            self.input_closed = True
            os.close(self._input)

    def kill(self) -> None:
        """Kill the process and its process group."""
        if self.code is None:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
