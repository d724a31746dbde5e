"""Runs one command with a timeout, and reads both streams in order of arrival in bounded memory."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MAX_KEPT_BYTES = 4_000_000  # bytes kept in memory of each stream's beginning, and as many of its end
ORDERED_BYTES = 100_000  # bytes of a stream after which speed matters more than the order
_SET_PIPE_SIZE = getattr(fcntl, "F_SETPIPE_SZ", 1031)  # Python defines it since 3.10.
_OUTPUT_EVENTS = select.EPOLLIN | select.EPOLLET
QUIET_SECONDS = 0.05  # seconds without output after which an unfinished line is shown
# Seconds after the command's end: children may be silent for LINGER and may write for LONGEST.
LINGER, LONGEST = (
    0.3,
    2.0,
)


class BoundedStream:
    """Keeps the beginning and the end of a stream in bounded memory."""

    def __init__(self) -> None:
        self.size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        self.size += len(data)
        free = MAX_KEPT_BYTES - len(self._head)
        self._head += data[:free]
        self._tail += data[max(free, 0) :]
        if len(self._tail) > 2 * MAX_KEPT_BYTES:
            del self._tail[:-MAX_KEPT_BYTES]

    def get_text(self) -> str:
        """Return the whole text, or both ends with the number of missing bytes between them."""
        head, tail = self._head.decode("utf-8", "backslashreplace"), self._tail[-MAX_KEPT_BYTES:]
        if not tail:
            return head
        missing = self.size - len(self._head) - len(tail)
        marker = f"\n[{missing} bytes omitted]\n" if missing else ""
        return head + marker + tail.decode("utf-8", "backslashreplace")


class OutputPipe:
    """One output stream of a command: a pipe that holds a single write.

    A program that writes to two such pipes in turn blocks until each write is read. The order in which the pipes become
    readable is therefore the order of the writes, however late mngr reads them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        try:
            self.fd, self.writer = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)  # each write is its own packet
        except OSError:  # Not every kernel has it. Several writes may then arrive as one.
            self.fd, self.writer = os.pipe()
        self._resize(4096)
        os.set_blocking(self.fd, False)
        self.has_ended = self.has_more = False
        self._size = 0

    def close_write_end(self) -> None:
        """Close mngr's copy of the write end, so that only the command holds it."""
        os.close(self.writer)

    def read_output(self, *, to_the_end: bool) -> bytes:
        """Return one packet, or many packets when the output is long or all writers are gone."""
        read_many = to_the_end or self._size > ORDERED_BYTES
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
            if not read_many:
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
            pass  # Not every kernel allows it, nor does a user's pipe limit.

    def close(self) -> None:
        os.close(self.fd)


class InputPipe:
    """The pipe to a command's input. It closes when all data is written."""

    def __init__(self, file: IO[bytes], data: bytes) -> None:
        self._file = file
        self._unsent = memoryview(data)
        self.fd = file.fileno()
        os.set_blocking(self.fd, False)

    @property
    def is_done(self) -> bool:
        """True when all data is written, or the command has closed its input."""
        return not self._unsent

    def write_more(self) -> None:
        """Write as much as the pipe takes now."""
        try:
            written = os.write(self.fd, self._unsent[:65536])
        except BlockingIOError:
            written = 0
        except BrokenPipeError:
            written = len(self._unsent)
        self._unsent = self._unsent[written:]

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True)
class Program:
    """A program to start: its command line, directory and environment variables."""

    argv: list[str]
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True)
class ProcessEnd:
    """How a command ended."""

    code: int  # 128+N on signal N
    seconds: float
    timed_out: bool
    streams: dict[str, BoundedStream]  # "out", "err", and "both" in the order of arrival


def run_process(
    program: Program,
    *,
    stdin: bytes,
    timeout: float,
    on_output: Callable[[str, bytes], None],
    on_pause: Callable[[], None],
) -> ProcessEnd:
    """Run a command to its end, or kill its process group at the timeout. Background processes keep running."""
    began = time.monotonic()
    out, err = OutputPipe("out"), OutputPipe("err")
    with select.epoll() as poll:
        for pipe in (out, err):  # before the program starts, so that the order of its first writes is known
            poll.register(pipe.fd, _OUTPUT_EVENTS)
        try:
            process = subprocess.Popen(
                program.argv,
                cwd=str(program.cwd),
                env=dict(program.env),
                stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
                stdout=out.writer,
                stderr=err.writer,
                start_new_session=True,
                bufsize=0,
            )
        finally:
            out.close_write_end()
            err.close_write_end()
        streams = {"out": BoundedStream(), "err": BoundedStream(), "both": BoundedStream()}

        def take_output(stream: str, data: bytes) -> None:
            streams[stream].add(data)
            streams["both"].add(data)
            on_output(stream, data)

        timed_out = True
        try:
            timed_out = _read_until_end_or_timeout(
                process, poll, [out, err], stdin, began + timeout, take_output, on_pause
            )
        finally:
            if timed_out:  # or an exception interrupted the reading
                os.killpg(process.pid, signal.SIGKILL)
            for stream_file in (process.stdin, out, err):
                if stream_file is not None:
                    stream_file.close()
            code = process.wait()
    return ProcessEnd(code if code >= 0 else 128 - code, time.monotonic() - began, timed_out, streams)


def _read_until_end_or_timeout(
    process: subprocess.Popen[bytes],
    poll: select.epoll,
    pipes: list[OutputPipe],
    stdin: bytes,
    deadline: float,
    take_output: Callable[[str, bytes], None],
    on_pause: Callable[[], None],
) -> bool:
    """Read until both streams end, or the process has ended and its children are silent. True on a timeout."""
    open_outputs = {pipe.fd: pipe for pipe in pipes}
    input_pipe = InputPipe(process.stdin, stdin) if process.stdin is not None else None
    ended_at: float | None = None
    if input_pipe is not None:
        poll.register(input_pipe.fd, select.EPOLLOUT)
    while open_outputs:
        now = time.monotonic()
        if now >= deadline:
            return True
        ready = poll.poll(min(deadline - now, QUIET_SECONDS))  # in the order in which they became readable
        for fd, event in ready:
            if fd in open_outputs:
                _read_from(open_outputs, fd, event, poll, take_output)
            elif input_pipe is not None:
                _write_to(input_pipe, poll)
        if not ready:
            on_pause()
        if ended_at is None and has_ended(process):
            ended_at = time.monotonic()
        if ended_at is not None and time.monotonic() - ended_at > (LONGEST if ready else LINGER):
            return False
    return _is_running_after(process, deadline)


def _read_from(
    open_outputs: dict[int, OutputPipe],
    fd: int,
    event: int,
    poll: select.epoll,
    take_output: Callable[[str, bytes], None],
) -> None:
    """Pass on what the pipe with this descriptor holds. Forget the pipe at its end."""
    pipe = open_outputs[fd]
    data = pipe.read_output(to_the_end=bool(event & select.EPOLLHUP))
    if data:
        take_output(pipe.name, data)
    if pipe.has_ended:
        poll.unregister(fd)
        del open_outputs[fd]
    elif pipe.has_more:
        poll.modify(fd, _OUTPUT_EVENTS)


def _write_to(input_pipe: InputPipe, poll: select.epoll) -> None:
    """Write to the command's input, and close it when all is written."""
    input_pipe.write_more()
    if input_pipe.is_done:
        poll.unregister(input_pipe.fd)
        input_pipe.close()


def _is_running_after(process: subprocess.Popen[bytes], deadline: float) -> bool:
    """Wait for a process that has closed its streams. True when it still runs after the deadline."""
    while not has_ended(process):
        if time.monotonic() >= deadline:
            return True
        time.sleep(0.005)
    return False


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """True when the process has ended.

    This does not reap the process, so the kernel cannot reuse its pid before mngr kills its process group.
    """
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
