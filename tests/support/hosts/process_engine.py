"""An engine for the bridge whose hosts are local directories and whose commands are processes. It can be told to fail."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import termios

from mngr.providers.bridge import streams
from mngr.providers.bridge.engine_interface import EngineError, UndoableResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from mngr.providers.bridge.engine_interface import Note, Verb
    from mngr.providers.bridge.messages import TerminalSpec


STUBBORN = 111  # a width that a terminal accepts only at the second request


class Process:
    """A process with its own process group."""

    def __init__(self, process: asyncio.subprocess.Process, fds: tuple[int, int, int]) -> None:
        self._process = process
        self._in, *self._out = fds
        self._open = set(fds) - {-1}
        self._is_begged = False

    async def write(self, data: bytes) -> None:
        while data:
            await asyncio.sleep(0)
            await streams.wait_writable(self._in)
            try:
                data = data[os.write(self._in, data[:4096]) :]
            except OSError:
                return

    async def end_input(self) -> None:
        self._close(self._in)

    def _close(self, *fds: int) -> None:
        for fd in self._open.intersection(fds):
            self._open.remove(fd)
            os.close(fd)

    async def read(self, stream: int) -> AsyncIterator[bytes]:
        fd = self._out[stream - 1]
        while fd >= 0:
            await streams.wait_readable(fd)
            try:
                data = os.read(fd, 65536)
            except OSError:  # the terminal has no process left
                return
            if not data:
                return
            yield data

    async def wait(self) -> int:
        code = await self._process.wait()
        self._close(*self._open)
        return code if code >= 0 else 128 - code

    async def resize(self, rows: int, columns: int) -> None:
        if columns == STUBBORN and not self._is_begged:
            self._is_begged = True
            raise EngineError("unreachable", "not now")
        fcntl.ioctl(self._out[0], termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGHUP)
        await self.wait()


class ProcessEngine:
    """`host["dir"]` is the host. If the directory does not exist, the host is gone."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        if options.get("broken"):
            raise EngineError("missing", "No module named 'nowhere'")
        self.verbs: Mapping[str, Verb] = {
            "echo": self.do_echo,
            "refuse": self.do_refuse,
            "crash": self.do_crash,
            "make": self.do_make,
            "sleep": self.do_sleep,
        }

    async def exec(self, host: dict[str, Any], program: str, terminal: TerminalSpec | None) -> Process:
        if not os.path.isdir(host["dir"]):
            raise EngineError("gone", f"there is no {host['dir']}")
        argv = ["sh", "-c", program]
        while os.path.exists(f"{host['dir']}/wait"):
            await asyncio.sleep(0.01)
        if terminal is None:
            pipes = [os.pipe() for _ in range(3)]
            program_fds = pipes[0][0], pipes[1][1], pipes[2][1]
            own_fds = pipes[0][1], pipes[1][0], pipes[2][0]
            env = dict(os.environ)
        else:
            own_fd, program_fd = os.openpty()
            fcntl.ioctl(program_fd, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.columns, 0, 0))
            program_fds, own_fds = (program_fd, program_fd, program_fd), (own_fd, own_fd, -1)
            env, argv = {**os.environ, "TERM": terminal.term}, ["setsid", "--ctty", *argv]
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=program_fds[0],
            stdout=program_fds[1],
            stderr=program_fds[2],
            cwd=host["dir"],
            env=env,
            start_new_session=terminal is None,
        )
        for fd in set(program_fds):
            os.close(fd)
        return Process(process, own_fds)

    async def do_echo(self, note: Note, **words: Any) -> dict[str, Any]:
        note("a note")
        return {"words": words, "pid": os.getpid()}

    async def do_refuse(self, note: Note, kind: str) -> dict[str, Any]:
        raise EngineError(kind, f"it is {kind}")

    async def do_crash(self, note: Note) -> dict[str, Any]:
        raise ZeroDivisionError("by zero")

    async def do_make(self, note: Note, path: str) -> UndoableResult:
        open(path, "w").close()

        async def undo() -> None:
            os.unlink(path)

        return UndoableResult({"path": path}, undo)

    async def do_sleep(self, note: Note, path: str) -> dict[str, Any]:
        try:
            open(path + ".began", "w").close()
            await asyncio.sleep(100)
        finally:
            open(path, "w").close()
        return {}

    async def close(self) -> None:
        pass


ENGINE = ProcessEngine
