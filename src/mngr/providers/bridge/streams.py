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

    from mngr.providers.bridge.protocol import Command

PORTION = 65536
_SURE = 4096  # what a pipe that is ready for writing takes without waiting


async def feed(fd: int, command: Command) -> None:
    """Everything that comes from `fd` to the command."""
    whole = _is_file(fd)
    while True:
        if not whole:
            await readable(fd)
        try:
            data = os.read(fd, PORTION)
        except OSError:  # a terminal that was closed
            data = b""
        if not data:
            break
        await command.write(data)
    await command.end_input()


async def drain(source: AsyncIterator[bytes], fd: int) -> None:
    """Everything that comes from the command to `fd`; when nobody reads there any more, BrokenPipeError."""
    whole = _is_file(fd)
    async for data in source:
        left = memoryview(data)
        while left:
            if not whole:
                await writable(fd)
            left = left[os.write(fd, left if whole else left[:_SURE]) :]


async def take(fd: int) -> bytes:
    """All that comes from `fd`."""
    found = b""
    if not is_nothing(fd):
        whole = _is_file(fd)
        while True:
            if not whole:
                await readable(fd)
            if not (data := os.read(fd, 1 << 20)):
                break
            found += data
    return found


async def give(data: bytes, fd: int) -> None:
    """All of it to `fd`, unless nobody reads there any more."""

    async def once() -> AsyncIterator[bytes]:
        yield data

    try:
        await drain(once(), fd)
    except BrokenPipeError:
        pass


async def readable(fd: int) -> None:
    """Wait until something comes."""
    await _ready(fd, select.POLLIN)


async def writable(fd: int) -> None:
    """Wait until there is room for some."""
    await _ready(fd, select.POLLOUT)


async def _ready(fd: int, event: int) -> None:
    """Wait until a descriptor can be read or written."""
    poll = select.poll()
    poll.register(fd, event)
    if poll.poll(0):
        return
    loop = asyncio.get_running_loop()
    add, remove = (
        (loop.add_reader, loop.remove_reader)
        if event == select.POLLIN
        else (loop.add_writer, loop.remove_writer)
    )
    done = loop.create_future()
    add(fd, _finish, done)
    try:
        await done
    finally:
        remove(fd)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def is_nothing(fd: int) -> bool:
    """Whether it is /dev/null."""
    found = os.fstat(fd)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev


def _is_file(fd: int) -> bool:
    """Whether it is always ready, and nothing can tell: a file, or /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not os.isatty(fd))
