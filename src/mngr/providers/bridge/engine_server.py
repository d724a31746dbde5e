"""The process that has an engine's library loaded. It listens on a socket and ends when it is unused for a while.

A request is a line of JSON, `{"do": VERB, ...}`. The answer is a line, too: `{"answer": …}`, `{"code": N}` or
`{"error": …}`, perhaps after lines with a `note`. The request `exec` brings three file descriptors, the length of a
program, and the program; lines with a terminal's `size` may follow. If the program cannot run, the server writes the
reason to its standard error after the request's `mark`, which the program itself does not know. A client that closes
the connection cancels its request. The process holds no state that must survive it.
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
from collections import defaultdict

from mngr.base.python_process import many_open_files
from mngr.base.untrusted_json import as_object
from mngr.providers.bridge import streams
from mngr.providers.bridge.engine_interface import BufferedEngine, EngineError, UndoableResult
from mngr.providers.bridge.messages import CallRequest, ExecRequest, read_request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, TypeVar

    from mngr.providers.bridge.engine_interface import BridgeEngine, EngineCommand, Verb
    from mngr.providers.bridge.messages import TerminalSpec

    T = TypeVar("T")

BACKLOG = 512  # connections that wait to be accepted
ACCEPT_RETRY_SECONDS = 0.1  # pause when there are too many open files
RESIZE_RETRY_SECONDS = 1.0  # pause before setting a terminal's size again
MAX_REQUEST_BYTES = 16 * 1024 * 1024


class _ClientGone(Exception):
    """The client has closed the connection and does not wait for an answer."""


class ClientConnection:
    """The connection to one client."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._held = b""
        self.fds: list[int] = []
        self._size = (0, 0)
        self._resized = asyncio.Event()

    async def read_request(self) -> tuple[ExecRequest | CallRequest, str]:
        """Return the request, and the program that comes with `exec`."""
        request = read_request(as_object(json.loads(await self._read_line())))
        if isinstance(request, CallRequest):
            return request, ""
        size = int(await self._read_line())
        while len(self._held) < size <= MAX_REQUEST_BYTES:
            await self._read_more()
        program, self._held = self._held[:size], self._held[size:]
        return request, program.decode("utf-8", "surrogateescape")

    async def _read_line(self) -> bytes:
        while b"\n" not in self._held:
            await self._read_more()
        line, _, self._held = self._held.partition(b"\n")
        return line

    async def _read_more(self) -> None:
        """Wait for more data and descriptors. Raise _ClientGone when the connection is closed."""
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
        """Receive new sizes of the terminal until the client closes the connection."""
        try:
            while True:
                rows, columns = json.loads(await self._read_line())["size"]
                self._size = int(rows), int(columns)
                self._resized.set()
        except (_ClientGone, ValueError, TypeError, LookupError):
            return

    async def apply_terminal_size(self, command: EngineCommand) -> None:
        """Set the latest size of the terminal whenever it changes, and retry if that fails."""
        while True:
            await self._resized.wait()
            self._resized.clear()
            try:
                await command.resize(*self._size)
            except Exception:
                await asyncio.sleep(RESIZE_RETRY_SECONDS)
                self._resized.set()

    async def wait_until_saved(self) -> bool:
        """True when the client confirms that it has saved the answer; False when it goes away before."""
        try:
            return bool(json.loads(await self._read_line()).get("saved"))
        except (_ClientGone, ValueError):
            return False

    async def send_answer(self, **answer: object) -> None:
        """Send an answer. A client that is gone is no error."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._link, json.dumps(answer).encode() + b"\n")
        except OSError:
            pass

    def send_progress(self, text: str) -> None:
        """Send a progress message. A client that is gone is no error."""
        try:
            self._link.send(json.dumps({"note": text}).encode() + b"\n")
        except OSError:
            pass

    def close_fd(self, stream: int) -> None:
        """Close the server's copy of one of the client's streams."""
        fd, self.fds[stream] = self.fds[stream], -1
        if fd >= 0:
            os.close(fd)

    def close(self) -> None:
        for stream in range(len(self.fds)):
            self.close_fd(stream)
        self._link.close()


class BridgeServer:
    """Serves one engine on one socket."""

    def __init__(self, path: str, engine: BridgeEngine, linger: float) -> None:
        self._path = path
        self._engine = engine
        self._linger = linger
        self._clients: set[asyncio.Task[None]] = set()
        self._last_use = time.monotonic()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until no client came for `linger` seconds, or another process owns the socket's path."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        own_inode = os.stat(self._path).st_ino
        accepting = loop.create_task(self._accept(listener))
        while self._is_needed(own_inode):
            await asyncio.sleep(min(1.0, self._linger))
        if _get_inode(self._path) == own_inode:
            os.unlink(self._path)
        # Clients that have connected before are still served. New ones cannot connect.
        await asyncio.sleep(0)
        accepting.cancel()
        self._accept_pending(listener)
        while self._clients:
            await asyncio.wait(self._clients)
        await self._engine.close()

    def _is_needed(self, own_inode: int) -> bool:
        """True while clients are connected or were connected recently, and the socket is still this server's."""
        is_used = bool(self._clients) or time.monotonic() - self._last_use < self._linger
        return is_used and _get_inode(self._path) == own_inode

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await streams.wait_readable(listener.fileno())
            if not self._accept_pending(listener):
                await asyncio.sleep(ACCEPT_RETRY_SECONDS)

    def _accept_pending(self, listener: socket.socket) -> bool:
        """Accept the waiting clients. Return False when too many open files prevent it."""
        while True:
            try:
                link = ClientConnection(listener.accept()[0])
            except OSError as error:
                return isinstance(error, BlockingIOError)
            task = asyncio.get_running_loop().create_task(self._serve_client(link))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _serve_client(self, link: ClientConnection) -> None:
        """Serve one client's request and send an error if it fails."""
        try:
            request, program = await link.read_request()
            if isinstance(request, ExecRequest):
                await self._run_exec(link, request, program)
            else:
                await self._run_call(link, request)
        except _ClientGone:
            pass
        except EngineError as error:
            await link.send_answer(error={"kind": error.kind, "message": error.message})
        except Exception as error:
            traceback.print_exc()
            await link.send_answer(error={"kind": "other", "message": f"{type(error).__name__}: {error}"})
        finally:
            self._last_use = time.monotonic()
            link.close()

    async def _run_call(self, link: ClientConnection, request: CallRequest) -> None:
        """Run a verb of the engine. Cancel it when the client goes away."""
        try:
            verb = self._engine.verbs[request.verb]
        except KeyError:
            raise EngineError("usage", "the engine process does not know this command") from None
        task = asyncio.ensure_future(verb(link.send_progress, **request.words))
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

    async def _run_exec(self, link: ClientConnection, request: ExecRequest, program: str) -> None:
        """Run a command with the client's streams. End it when the client goes away."""
        await link.send_answer(taken=True)
        if len(link.fds) < 3:
            raise EngineError(
                "busy", "too many commands run at the same time; raise the limit of open files: ulimit -n 4096"
            )
        gone = asyncio.ensure_future(link.wait_until_gone())
        resizing: asyncio.Future[None] | None = None
        try:
            if streams.is_dev_null(link.fds[0]):  # This saves many engines a call.
                program = "exec </dev/null\n" + program
            if request.is_buffered and isinstance(self._engine, BufferedEngine):
                await _run_buffered(self._engine, link, gone, request.host, program)
                return
            # The start is not cancelled, because then nobody would know whether the command runs.
            command = await self._engine.exec(request.host, program, request.terminal)
            resizing = asyncio.ensure_future(link.apply_terminal_size(command))
            running = asyncio.ensure_future(_stream_command(command, link))
            if not await _wait_for_first(running, gone):
                running.cancel()
                await asyncio.wait([running])
                await command.kill()
                raise _ClientGone
            await link.send_answer(code=running.result())
        except EngineError as error:
            if request.terminal is None:
                _write_text(link.fds[2], f"{request.mark} {error.kind}: {error.message}\n")
            raise
        finally:
            gone.cancel()
            if resizing is not None:
                resizing.cancel()


async def _run_buffered(
    engine: BufferedEngine, link: ClientConnection, gone: Awaitable[None], host: dict[str, object], program: str
) -> None:
    """Read all input, run the program to its end, and then write all output."""
    data = await streams.read_all(link.fds[0])
    running = asyncio.ensure_future(engine.run_buffered(host, program, data))
    if not await _wait_for_first(running, gone):
        running.cancel()
        await asyncio.wait([running])
        raise _ClientGone
    out, err, code = running.result()
    await asyncio.gather(streams.write_all(out, link.fds[1]), streams.write_all(err, link.fds[2]))
    for stream in (1, 2):
        link.close_fd(stream)
    await link.send_answer(code=code)


async def _wait_for_first(task: asyncio.Future[T], gone: Awaitable[None]) -> bool:
    """Wait until the task ends or the client is gone. True when the task has ended."""
    watcher = asyncio.ensure_future(gone)
    both: list[asyncio.Future[Any]] = [task, watcher]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        return False
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)  # wait until it has stopped reading
    return True


async def _stream_command(command: EngineCommand, link: ClientConnection) -> int:
    """Copy streams in both directions until the command ends. Return its exit code, or 141 without a reader."""

    async def copy_output(stream: int) -> None:
        try:
            await streams.copy_to_fd(command.read(stream), link.fds[stream])
        finally:
            link.close_fd(stream)

    has_no_input = streams.is_dev_null(link.fds[0])
    feeding = asyncio.ensure_future(asyncio.sleep(0) if has_no_input else streams.copy_to_command(link.fds[0], command))
    draining = [asyncio.ensure_future(copy_output(stream)) for stream in (1, 2)]
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
    """Replaces an engine that cannot be loaded. Every call raises the reason."""

    def __init__(self, error: EngineError) -> None:
        self._error = error
        self.verbs: Mapping[str, Verb] = defaultdict(lambda: self._raise_start_error)

    async def exec(self, host: dict[str, object], program: str, terminal: TerminalSpec | None) -> EngineCommand:
        raise self._error

    async def run_buffered(self, host: dict[str, object], program: str, data: bytes) -> tuple[bytes, bytes, int]:
        raise self._error

    async def _raise_start_error(self, *_: object, **__: object) -> dict[str, object]:
        raise self._error

    async def close(self) -> None:
        pass


def load_engine(name: str) -> Callable[[dict[str, object]], BridgeEngine]:
    """Return the class `ENGINE` of a module, given its dotted name or the path of its file.

    It is called with the provider's settings, and does not contact anything then.
    """
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
    """Serve the engine `name` on the socket `path`. Settings come as JSON on standard input."""
    settings = json.load(sys.stdin)
    many_open_files.raise_open_file_limit()  # each command needs four descriptors
    # From the rename on, clients can connect and wait for the server to accept them.
    temporary_path = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(temporary_path)
    listener.listen(BACKLOG)
    os.rename(temporary_path, path)
    os.write(1, b"ready\n")
    null_fd = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_fd, 1)
    linger = float(settings["linger"])
    engine: BridgeEngine
    try:
        engine = load_engine(name)(settings["options"])
    except EngineError as error:
        engine, linger = _MissingEngine(error), 1.0
    asyncio.run(BridgeServer(path, engine, linger).serve(listener))
