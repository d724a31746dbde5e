"""The process that has an engine's library loaded: it listens on a socket, and ends when nobody has come for a while.

A request is a line of JSON, `{"do": VERB, ...}`. The answer is a line, too: `{"answer": …}`, `{"code": N}` or `{"error": …}`,
perhaps after some with a `note`. With `exec` come three file descriptors, the length of a program, and the program; a line
with `size` may follow. Why it could not be run is said on its standard error, after the `mark` that came with the request: the
command could write there, too. Whoever closes the connection wants no more of it. Nothing that matters is kept here.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import socket
import sys
import time
import traceback
from typing import cast

from mngr.base import file_descriptors
from mngr.providers.bridge import streams
from mngr.providers.bridge.protocol import EngineError, UndoableResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, TypeVar

    from mngr.providers.bridge.protocol import BridgeEngine, EngineCommand

    T = TypeVar("T")

BACKLOG = 512  # connections that are not yet accepted
ACCEPT_RETRY_SECONDS = 0.1  # seconds until somebody may have gone
RESIZE_RETRY_SECONDS = 1.0  # seconds until the size of a terminal is set once more
MAX_REQUEST_BYTES = 16 * 1024 * 1024  # bytes of a request


class _ClientGone(Exception):
    """Whoever asked does not wait for the answer."""


class ClientConnection:
    """One client."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._held = b""
        self.fds: list[int] = []
        self._size = (0, 0)
        self._resized = asyncio.Event()

    async def read_request(self) -> tuple[dict[str, Any], str]:
        """What is asked, and the program that comes with it."""
        head = json.loads(await self._read_line())
        if head.get("do") != "exec":
            return head, ""
        size = int(await self._read_line())
        while len(self._held) < size <= MAX_REQUEST_BYTES:
            await self._read_more()
        program, self._held = self._held[:size], self._held[size:]
        return head, program.decode("utf-8", "surrogateescape")

    async def _read_line(self) -> bytes:
        while b"\n" not in self._held:
            await self._read_more()
        line, _, self._held = self._held.partition(b"\n")
        return line

    async def _read_more(self) -> None:
        while True:
            await streams.wait_readable(self._link.fileno())
            try:
                data, fds, _, _ = socket.recv_fds(self._link, 65536, 3)
            except BlockingIOError:
                continue
            except OSError:
                raise _ClientGone from None
            self.fds += fds
            if not data or len(self._held) > MAX_REQUEST_BYTES:
                raise _ClientGone
            self._held += data
            return

    async def wait_until_gone(self) -> None:
        """Hear of new sizes of the terminal until the client goes."""
        try:
            while True:
                rows, columns = json.loads(await self._read_line())["size"]
                self._size = int(rows), int(columns)
                self._resized.set()
        except (_ClientGone, ValueError, TypeError, LookupError):
            return

    async def apply_terminal_size(self, command: EngineCommand) -> None:
        """Give a command's terminal the newest size that we heard of, also of those before it ran; again if that fails."""
        while True:
            await self._resized.wait()
            self._resized.clear()
            try:
                await command.resize(*self._size)
            except Exception:
                await asyncio.sleep(RESIZE_RETRY_SECONDS)
                self._resized.set()

    async def wait_until_saved(self) -> bool:
        """Whether the client says that it has written down what it was told, or goes before."""
        try:
            return bool(json.loads(await self._read_line()).get("kept"))
        except (_ClientGone, ValueError):
            return False

    async def send_answer(self, **answer: object) -> None:
        """Answer; it does not matter when nobody hears it."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._link, json.dumps(answer).encode() + b"\n")
        except OSError:
            pass

    def send_progress(self, text: str) -> None:
        """Say how it goes, unless nobody listens."""
        try:
            self._link.send(json.dumps({"note": text}).encode() + b"\n")
        except OSError:
            pass

    def close_fd(self, at: int) -> None:
        """The client's stream has ended on our side."""
        fd, self.fds[at] = self.fds[at], -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        for at in range(len(self.fds)):
            self.close_fd(at)
        self._link.close()


class BridgeServer:
    """Serves one engine at one path."""

    def __init__(self, path: str, engine: BridgeEngine, linger: float) -> None:
        self._path = path
        self._engine = engine
        self._linger = linger
        self._clients: set[asyncio.Task[None]] = set()
        self._last = time.monotonic()

    async def serve(self, listener: socket.socket) -> None:
        """Until nobody came for `linger` seconds, or somebody else listens at the path."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        mine = os.stat(self._path).st_ino
        accepting = loop.create_task(self._accept(listener))
        while self._is_needed(mine):
            await asyncio.sleep(min(1.0, self._linger))
        if _get_inode(self._path) == mine:
            os.unlink(self._path)
        # Whoever came before that is served; nobody can come any more.
        await asyncio.sleep(0)
        accepting.cancel()
        self._accept_pending(listener)
        while self._clients:
            await asyncio.wait(self._clients)
        await self._engine.close()

    def _is_needed(self, mine: int) -> bool:
        if self._clients:
            self._last = time.monotonic()
        return time.monotonic() - self._last < self._linger and _get_inode(self._path) == mine

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await streams.wait_readable(listener.fileno())
            if not self._accept_pending(listener):
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)

    def _accept_pending(self, listener: socket.socket) -> bool:
        """Accept who waits; whether that is all of them: no more files may be opened for the others."""
        while True:
            try:
                link = ClientConnection(listener.accept()[0])
            except OSError as error:
                return isinstance(error, BlockingIOError)
            task = asyncio.get_running_loop().create_task(self._serve_client(link))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve_client(self, link: ClientConnection) -> None:
        try:
            head, program = await link.read_request()
            if head["do"] == "exec":
                await self._run_exec(link, head, program)
            else:
                await self._run_call(link, head)
        except _ClientGone:
            pass
        except EngineError as error:
            await link.send_answer(error={"kind": error.kind, "message": error.message})
        except Exception as error:
            traceback.print_exc()
            await link.send_answer(error={"kind": "other", "message": f"{type(error).__name__}: {error}"})
        finally:
            self._last = time.monotonic()
            link.close()

    async def _run_call(self, link: ClientConnection, head: dict[str, Any]) -> None:
        verb = getattr(self._engine, "do_" + str(head.pop("do")), None)
        if verb is None:
            raise EngineError("usage", "there is no such verb")
        task = asyncio.ensure_future(verb(link.send_progress, **head))
        if not await _wait_for_first(task, link.wait_until_gone()):
            task.cancel()
            await asyncio.wait([task])
            raise _ClientGone
        answer = task.result()
        if not isinstance(answer, UndoableResult):
            await link.send_answer(answer=answer)
            return
        await link.send_answer(answer=answer.answer)
        if not await link.wait_until_saved():
            await answer.undo()

    async def _run_exec(self, link: ClientConnection, head: dict[str, Any], program: str) -> None:
        await link.send_answer(taken=True)
        if len(link.fds) < 3:
            raise EngineError("busy", "too many commands run at once: see ulimit -n")
        gone = asyncio.ensure_future(link.wait_until_gone())
        fitting: asyncio.Future[None] | None = None
        try:
            if streams.is_dev_null(link.fds[0]):  # spares many engines a call
                program = "exec </dev/null\n" + program
            if head.get("whole") and hasattr(self._engine, "whole"):
                await self._run_buffered(link, gone, head["host"], program)
                return
            # Not cut short: then nobody would know whether it runs.
            command = await self._engine.exec(head["host"], program, head.get("terminal"))
            fitting = asyncio.ensure_future(link.apply_terminal_size(command))
            running = asyncio.ensure_future(_stream_command(command, link))
            if not await _wait_for_first(running, gone):
                running.cancel()
                await asyncio.wait([running])
                await command.kill()
                raise _ClientGone
            await link.send_answer(code=running.result())
        except EngineError as error:
            if not head.get("terminal"):
                _write_text(link.fds[2], f"{head['mark']} {error.kind}: {error.message}\n")
            raise
        finally:
            gone.cancel()
            if fitting is not None:
                fitting.cancel()

    async def _run_buffered(
        self, link: ClientConnection, gone: Awaitable[None], host: dict[str, Any], program: str
    ) -> None:
        """All at once: what goes in, and when it has ended, what came out."""
        data = await streams.read_all(link.fds[0])
        running = asyncio.ensure_future(self._engine.whole(host, program, data))  # type: ignore[attr-defined]
        if not await _wait_for_first(running, gone):
            running.cancel()
            await asyncio.wait([running])
            raise _ClientGone
        out, err, code = running.result()
        await asyncio.gather(streams.write_all(out, link.fds[1]), streams.write_all(err, link.fds[2]))
        for at in (1, 2):
            link.close_fd(at)
        await link.send_answer(code=code)


async def _wait_for_first(task: asyncio.Future[T], gone: Awaitable[None]) -> bool:
    """Wait for the first of the two to end; whether it is the task."""
    watch = asyncio.ensure_future(gone)
    both: list[asyncio.Future[Any]] = [task, watch]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        return False
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)  # it listens no more
    return True


async def _stream_command(command: EngineCommand, link: ClientConnection) -> int:
    """Streams both ways until the command has ended; its exit code, or 141 when nobody reads what it writes."""

    async def hand_out(at: int) -> None:
        try:
            await streams.copy_to_fd(command.read(at), link.fds[at])
        finally:
            link.close_fd(at)

    nothing = streams.is_dev_null(link.fds[0])
    feeding = asyncio.ensure_future(asyncio.sleep(0) if nothing else streams.copy_to_command(link.fds[0], command))
    draining = [asyncio.ensure_future(hand_out(at)) for at in (1, 2)]
    try:
        await asyncio.gather(*draining)
        return await command.wait()
    except BrokenPipeError:
        await command.kill()
        return 141
    finally:
        for task in (feeding, *draining):
            task.cancel()
        await asyncio.gather(feeding, *draining, return_exceptions=True)


def _write_text(fd: int, text: str) -> None:
    try:
        os.write(fd, text.encode("utf-8", "replace"))
    except OSError:
        pass


def _get_inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


class _MissingEngine:
    """In the place of an engine that cannot be loaded: says so to everyone."""

    def __init__(self, error: EngineError) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return self._refuse

    async def _refuse(self, *_: object, **__: object) -> Any:
        raise self._error

    async def close(self) -> None:
        pass


def load_engine(name: str) -> type[BridgeEngine]:
    """The class that `ENGINE` names in a module by its dotted name, or of a file by its path."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name).ENGINE  # type: ignore[no-any-return]
        spec = importlib.util.spec_from_file_location("engine", name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.ENGINE  # type: ignore[no-any-return]
    except ImportError as error:
        raise EngineError("missing", str(error)) from error


def main(path: str, name: str) -> None:
    """Listen at `path` for the engine `name`; its settings and ours come as JSON."""
    words = json.load(sys.stdin)
    file_descriptors.raise_open_file_limit()  # four for each command
    # The mark of a place that is taken: whoever connects from now on waits until we answer.
    fresh = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(fresh)
    listener.listen(BACKLOG)
    os.rename(fresh, path)
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    linger = float(words["linger"])
    try:
        engine = load_engine(name)(words["options"])
    except EngineError as error:
        engine, linger = cast("BridgeEngine", _MissingEngine(error)), 1.0
    asyncio.run(BridgeServer(path, engine, linger).serve(listener))
