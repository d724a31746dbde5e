"""Copies data between a command and the client's file descriptors, no faster than the reader takes it.

The client shares its descriptors with the server, so they stay in blocking mode.
The server therefore reads and writes only when they are ready, and in small portions.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mngr.providers.bridge.engine_interface import EngineCommand

CHUNK_SIZE = 65536
_SAFE_WRITE_SIZE = 4096  # a pipe that is ready takes this much without blocking


async def copy_to_command(fd: int, command: EngineCommand) -> None:
    """Copy everything from `fd` to the command, and then close its input."""
    is_always_ready = _is_always_ready(fd)
    while True:
        if not is_always_ready:
            await wait_readable(fd)
        try:
            data = os.read(fd, CHUNK_SIZE)
        except OSError:  # The terminal was closed.
            data = b""
        if not data:
            break
        await command.write(data)
    await command.end_input()


async def copy_to_fd(source: AsyncIterator[bytes], fd: int) -> None:
    """Copy everything from the command to `fd`. Raise BrokenPipeError when `fd` has no reader any more."""
    is_always_ready = _is_always_ready(fd)
    async for data in source:
        remaining = memoryview(data)
        while remaining:
            if not is_always_ready:
                await wait_writable(fd)
            remaining = remaining[os.write(fd, remaining if is_always_ready else remaining[:_SAFE_WRITE_SIZE]) :]


async def read_all(fd: int) -> bytes:
    """Return everything that comes from `fd`."""
    content = b""
    if not is_dev_null(fd):
        is_always_ready = _is_always_ready(fd)
        while True:
            if not is_always_ready:
                await wait_readable(fd)
            if not (data := os.read(fd, 1 << 20)):
                break
            content += data
    return content


async def write_all(data: bytes, fd: int) -> None:
    """Write all data to `fd`, and stop silently if it has no reader any more."""

    async def once() -> AsyncIterator[bytes]:
        yield data

    try:
        await copy_to_fd(once(), fd)
    except BrokenPipeError:
        pass


async def wait_readable(fd: int) -> None:
    """Wait until `fd` is readable."""
    await _wait_ready(fd, select.POLLIN)


async def wait_writable(fd: int) -> None:
    """Wait until `fd` is writable."""
    await _wait_ready(fd, select.POLLOUT)


async def _wait_ready(fd: int, event: int) -> None:
    """Wait until `fd` is ready for the event."""
    poll = select.poll()
    poll.register(fd, event)
    if poll.poll(0):
        return
    loop = asyncio.get_running_loop()
    add, remove = (
        (loop.add_reader, loop.remove_reader) if event == select.POLLIN else (loop.add_writer, loop.remove_writer)
    )
    done = loop.create_future()
    add(fd, _set_done, done)
    try:
        await done
    finally:
        remove(fd)


def _set_done(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def is_dev_null(fd: int) -> bool:
    """True when `fd` is /dev/null."""
    status = os.fstat(fd)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev


def _is_always_ready(fd: int) -> bool:
    """True for a file or a device such as /dev/null, which is always ready and cannot be polled."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
