"""A command on a host of Ray, with the descriptors of its input and output.

Ray sends this module to the cluster by value.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NotRequired, TypedDict

    class ActorOutput(TypedDict):
        """New data of a command by stream, and the streams that have ended."""

        data: dict[int, bytes]
        ended: list[int]
        code: NotRequired[int]  # present when the command and all its streams have ended


CHUNK_SIZE = 96 * 1024  # larger answers would go through Ray's object store
SET_PIPE_SIZE = 1031


class ActorCommand:
    """A command that runs on the host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, own_fds: dict[int, int], terminal: int) -> None:
        self.input = own_fds.pop(0)
        self.output = own_fds  # descriptor by stream, without the streams that have ended
        self.terminal = terminal
        self.code: asyncio.Future[int] = loop.create_future()
        self.started: asyncio.Future[None] = loop.create_future()
        self.last_asked_at = time.monotonic()
        self.open_polls = 0

    def close(self) -> None:
        """Close all descriptors that are still open."""
        for fd in {self.input, self.terminal, *self.output.values()}:
            if fd >= 0:
                os.close(fd)
        self.input = self.terminal = -1
        self.output = {}


def make_pipes() -> tuple[dict[int, int], tuple[int, ...], int]:
    """Return mngr's ends of three pipes by stream, the command's ends, and -1 in place of a terminal."""
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    for fd in (in_w, out_r, err_r):
        os.set_blocking(fd, False)
    for fd in (in_w, out_r):
        try:
            fcntl.fcntl(fd, SET_PIPE_SIZE, 1 << 20)
        except OSError:
            pass  # The pipe keeps its size.
    return {0: in_w, 1: out_r, 2: err_r}, (in_r, out_w, err_w), -1


def make_terminal(rows: int, columns: int) -> tuple[dict[int, int], tuple[int, ...], int]:
    """Return the same for a new terminal of this size, and its descriptor."""
    own_fd, child_fd = os.openpty()
    set_terminal_size(own_fd, rows, columns)
    os.set_blocking(own_fd, False)
    return {0: own_fd, 1: own_fd}, (child_fd,), own_fd


def set_terminal_size(fd: int, rows: int, columns: int) -> None:
    """Set the size of a terminal."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def read_streams(command: ActorCommand, wanted: list[int]) -> ActorOutput:
    """Return the data that is available now and the streams that have ended."""
    data: dict[int, bytes] = {}
    ended = []
    for stream in wanted:
        fd = command.output.get(stream, -1)
        if fd < 0:
            continue
        free_bytes = CHUNK_SIZE - sum(map(len, data.values()))
        try:
            chunk = os.read(fd, free_bytes) if free_bytes else None
        except BlockingIOError:
            continue
        except OSError:  # No process has the terminal open any more.
            chunk = b""
        if chunk:
            data[stream] = chunk
        elif chunk is not None:
            ended.append(stream)
            command.output.pop(stream)
            if fd != command.terminal:
                os.close(fd)
    return {"data": data, "ended": ended}


async def wait_readable(command: ActorCommand, fds: list[int], patience: float) -> None:
    """Wait until a descriptor is readable. Without open streams, wait until the command has ended."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def wake(*_: object) -> None:
        if not done.done():
            done.set_result(None)

    for fd in fds:
        loop.add_reader(fd, wake)
    if not command.output:
        command.code.add_done_callback(wake)
    try:
        await asyncio.wait([done], timeout=patience)
    finally:
        command.code.remove_done_callback(wake)
        for fd in fds:
            loop.remove_reader(fd)


async def wait_writable(command: ActorCommand) -> None:
    """Wait until the command takes more input or has ended."""
    loop = asyncio.get_running_loop()
    fd = command.input
    done: asyncio.Future[int] = loop.create_future()

    def wake() -> None:
        if not done.done():
            done.set_result(0)

    loop.add_writer(fd, wake)
    try:
        await asyncio.wait([done, command.code], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_writer(fd)
    if command.code.done() and command.input >= 0 and command.input != command.terminal:
        os.close(command.input)
        command.input = -1
