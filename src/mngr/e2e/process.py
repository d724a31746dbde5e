"""Runs one command: both streams as they arrive, in bounded memory, with a limit on time."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

MAX_KEPT_BYTES = 4_000_000  # bytes of each stream that are kept in memory from its beginning, and as many from its end
ORDERED_BYTES = 100_000  # bytes of a stream after which speed counts for more than the order
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)  # Python has it from 3.10 on
QUIET_SECONDS = 0.05  # seconds without a word after which a line without an end is shown
LINGER, LONGEST = (
    0.3,
    2.0,
)  # seconds that children of a command which has ended may be silent, and may still write


class BoundedStream:
    """A stream in bounded memory: its beginning and its end."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = MAX_KEPT_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * MAX_KEPT_BYTES:
            del self._tail[:-MAX_KEPT_BYTES]

    def get_text(self) -> str:
        """All of it, or both ends and how much is missing between them."""
        head, tail = self._head.decode("utf-8", "backslashreplace"), self._tail[-MAX_KEPT_BYTES:]
        if not tail:
            return head
        missing = self.size - len(self._head) - len(tail)
        gap = f"\n[{missing} bytes left out here]\n" if missing else ""
        return head + gap + tail.decode("utf-8", "backslashreplace")


class OutputPipe:
    """One stream of a command: a pipe with room for one write.

    Who writes to two of them in turn waits until he is heard, so that the order in which they have something is the order in
    which he wrote, however late we come.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self.fd, self.writer = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)  # each write is a packet of its own
        except OSError:  # not on every kernel; writes may then come together
            self.fd, self.writer = os.pipe()
        self._resize(4096)
        os.set_blocking(self.fd, False)
        self.has_ended = self.has_more = False
        self._size = 0

    def close_write_end(self) -> None:
        """The other end is now the command's alone."""
        os.close(self.writer)

    def read_output(self, *, to_the_end: bool) -> bytes:
        """One packet; of much output, and of what is left when all writers are gone, many."""
        many = to_the_end or self._size > ORDERED_BYTES
        parts, size = [], 0
        self.has_more = False
        while size < 65536:
            try:
                data = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            if not data:
                self.has_ended = True
                break
            parts.append(data)
            size += len(data)
            if not many:
                break
        else:
            self.has_more = True
        if self._size <= ORDERED_BYTES < self._size + size:
            self._resize(65536)
        self._size += size
        return b"".join(parts)

    def _resize(self, size: int) -> None:
        try:
            fcntl.fcntl(self.fd, _SET_PIPE_SIZE, size)
        except OSError:
            pass  # not on every kernel, and not for somebody with too many pipes

    def close(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True)
class ProcessEnd:
    """How a command ended."""

    code: int  # 128+N on signal N
    seconds: float
    timed_out: bool
    streams: dict[str, BoundedStream]  # out, err, and both as they came


def run_process(
    argv: list[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes,
    timeout: float,
    hear: Callable[[str, bytes], None],
    pause: Callable[[], None],
) -> ProcessEnd:
    """Run to the end, or to its limit: then its whole process group is killed. What it left running goes on."""
    began = time.monotonic()
    out, err = OutputPipe("out"), OutputPipe("err")
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=out.writer,
            stderr=err.writer,
            start_new_session=True,
            bufsize=0,
        )
    finally:
        out.close_write_end()
        err.close_write_end()
    kept = {"out": BoundedStream(), "err": BoundedStream(), "both": BoundedStream()}

    def take(stream: str, data: bytes) -> None:
        kept[stream].add(data)
        kept["both"].add(data)
        hear(stream, data)

    timed_out = True
    try:
        timed_out = _read_until_end(process, [out, err], stdin, began + timeout, take, pause)
    finally:
        if timed_out:  # or we were interrupted
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, out, err):
            if pipe is not None:
                pipe.close()
        code = process.wait()
    return ProcessEnd(code if code >= 0 else 128 - code, time.monotonic() - began, timed_out, kept)


def _read_until_end(
    process: subprocess.Popen[bytes],
    ears: list[OutputPipe],
    stdin: bytes,
    deadline: float,
    take: Callable[[str, bytes], None],
    pause: Callable[[], None],
) -> bool:
    """Read until both streams end, or the process has ended and its children are silent; whether time ran out."""
    left = memoryview(stdin)
    feed = process.stdin.fileno() if process.stdin is not None else -1
    open_ = {ear.fd: ear for ear in ears}
    ended_at: float | None = None
    with select.epoll() as poll:
        for fd in open_:
            poll.register(fd, select.EPOLLIN | select.EPOLLET)
        if feed >= 0:
            os.set_blocking(feed, False)
            poll.register(feed, select.EPOLLOUT)
        while open_:
            now = time.monotonic()
            if now >= deadline:
                return True
            ready = poll.poll(min(deadline - now, QUIET_SECONDS))  # in the order in which they became so
            for fd, event in ready:
                if fd == feed:
                    left = _write_input(feed, left)
                    if not left:
                        poll.unregister(feed)
                        assert process.stdin is not None
                        process.stdin.close()
                        feed = -1
                    continue
                ear = open_[fd]
                if data := ear.read_output(to_the_end=bool(event & select.EPOLLHUP)):
                    take(ear.name, data)
                if ear.has_ended:
                    poll.unregister(fd)
                    del open_[fd]
                elif ear.has_more:
                    poll.modify(fd, select.EPOLLIN | select.EPOLLET)
            if not ready:
                pause()
            if ended_at is None and has_ended(process):
                ended_at = time.monotonic()
            if ended_at is not None and time.monotonic() - ended_at > (LONGEST if ready else LINGER):
                return False
    while not has_ended(process):  # it closed its streams and goes on
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.005)
    return False


def _write_input(fd: int, left: memoryview) -> memoryview:
    try:
        return left[os.write(fd, left[:65536]) :]
    except BlockingIOError:
        return left
    except BrokenPipeError:
        return left[:0]


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; it is not waited for here, so that its number stays its own until its group is killed."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
