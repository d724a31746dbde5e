"""Between a command and the file descriptors of whoever started it: bytes both ways, no faster than they are taken.

They are shared with their owner, so they are never set not to wait: we read and write when they are ready, in portions.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mngr.providers.bridge.protocol import EngineCommand

CHUNK_SIZE = 65536
_SAFE_WRITE_SIZE = 4096  # what a pipe that is ready for writing takes without waiting


async def copy_to_command(fd: int, command: EngineCommand) -> None:
    """Everything that comes from `fd` to the command."""
    whole = _is_always_ready(fd)
    while True:
        if not whole:
            await wait_readable(fd)
        try:
            data = os.read(fd, CHUNK_SIZE)
        except OSError:  # a terminal that was closed
            data = b""
        if not data:
            break
        await command.write(data)
    await command.end_input()


async def copy_to_fd(source: AsyncIterator[bytes], fd: int) -> None:
    """Everything that comes from the command to `fd`; when nobody reads there any more, BrokenPipeError."""
    whole = _is_always_ready(fd)
    async for data in source:
        left = memoryview(data)
        while left:
            if not whole:
                await wait_writable(fd)
            left = left[os.write(fd, left if whole else left[:_SAFE_WRITE_SIZE]) :]


async def read_all(fd: int) -> bytes:
    """All that comes from `fd`."""
    found = b""
    if not is_dev_null(fd):
        whole = _is_always_ready(fd)
        while True:
            if not whole:
                await wait_readable(fd)
            if not (data := os.read(fd, 1 << 20)):
                break
            found += data
    return found


async def write_all(data: bytes, fd: int) -> None:
    """All of it to `fd`, unless nobody reads there any more."""

    async def once() -> AsyncIterator[bytes]:
        yield data

    try:
        await copy_to_fd(once(), fd)
    except BrokenPipeError:
        pass


async def wait_readable(fd: int) -> None:
    """Wait until something comes."""
    await _wait_ready(fd, select.POLLIN)


async def wait_writable(fd: int) -> None:
    """Wait until there is room for some."""
    await _wait_ready(fd, select.POLLOUT)


async def _wait_ready(fd: int, event: int) -> None:
    """Wait until a descriptor can be read or written."""
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
    """Whether it is /dev/null."""
    found = os.fstat(fd)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def _is_always_ready(fd: int) -> bool:
    """Whether it is always ready, and nothing can tell: a file, or /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
