"""Runs one command: both streams as they arrive, in bounded memory, with a limit on time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

KEPT = 4_000_000  # bytes of each stream that are kept in memory from its beginning, and as many from its end
QUIET = 0.05  # seconds without a word after which a line without an end is shown
LINGER, LONGEST = (
    0.3,
    2.0,
)  # seconds that children of a command which has ended may be silent, and may still write


class Kept:
    """A stream in bounded memory: its beginning and its end."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        room = KEPT - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, 0) :]
        if len(self._tail) > 2 * KEPT:
            del self._tail[:-KEPT]

    def text(self) -> str:
        """All of it, or both ends and how much is missing between them."""
        head, tail = self._head.decode("utf-8", "backslashreplace"), self._tail[-KEPT:]
        if not tail:
            return head
        missing = self.size - len(self._head) - len(tail)
        gap = f"\n[{missing} bytes left out here]\n" if missing else ""
        return head + gap + tail.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # 128+N on signal N
    seconds: float
    timed_out: bool
    kept: dict[str, Kept]  # out, err, and both as they came


def run(
    argv: list[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes,
    timeout: float,
    hear: Callable[[str, bytes], None],
    pause: Callable[[], None],
) -> Ended:
    """Run to the end, or to its limit: then its whole process group is killed. What it left running goes on."""
    began = time.monotonic()
    process = subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        bufsize=0,
    )
    kept = {"out": Kept(), "err": Kept(), "both": Kept()}

    def take(stream: str, data: bytes) -> None:
        kept[stream].add(data)
        kept["both"].add(data)
        hear(stream, data)

    timed_out = True
    try:
        timed_out = _follow(process, stdin, began + timeout, take, pause)
    finally:
        if timed_out:  # or we were interrupted
            os.killpg(process.pid, signal.SIGKILL)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        code = process.wait()
    return Ended(code if code >= 0 else 128 - code, time.monotonic() - began, timed_out, kept)


def _follow(
    process: subprocess.Popen[bytes],
    stdin: bytes,
    deadline: float,
    take: Callable[[str, bytes], None],
    pause: Callable[[], None],
) -> bool:
    """Read until both streams end, or the process has ended and its children are silent; whether time ran out."""
    assert process.stdout is not None and process.stderr is not None
    poll = select.poll()
    names = {process.stdout.fileno(): "out", process.stderr.fileno(): "err"}
    for fd in names:
        poll.register(fd, select.POLLIN)
    left = memoryview(stdin)
    feed = process.stdin.fileno() if process.stdin is not None else -1
    if feed >= 0:
        os.set_blocking(feed, False)
        poll.register(feed, select.POLLOUT)
    ended_at: float | None = None
    while names:
        now = time.monotonic()
        if now >= deadline:
            return True
        ready = poll.poll(min(deadline - now, QUIET) * 1000)
        for fd, _ in ready:
            if fd == feed:
                left = _feed(feed, left)
                if not left:
                    poll.unregister(feed)
                    assert process.stdin is not None
                    process.stdin.close()
                    feed = -1
                continue
            data = os.read(fd, 65536)
            if data:
                take(names[fd], data)
            else:
                poll.unregister(fd)
                del names[fd]
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


def _feed(fd: int, left: memoryview) -> memoryview:
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
