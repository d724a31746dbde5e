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

from mngr.base import descriptors
from mngr.providers.bridge import streams
from mngr.providers.bridge.protocol import Made, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any, TypeVar

    from mngr.providers.bridge.protocol import Command, Engine

    T = TypeVar("T")

WAITING = 512  # connections that are not yet accepted
FULL = 0.1  # seconds until somebody may have gone
AGAIN = 1.0  # seconds until the size of a terminal is set once more
LARGEST = 16 * 1024 * 1024  # bytes of a request


class _Gone(Exception):
    """Whoever asked does not wait for the answer."""


class Link:
    """One client."""

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self._held = b""
        self.fds: list[int] = []
        self._size = (0, 0)
        self._resized = asyncio.Event()

    async def request(self) -> tuple[dict[str, Any], str]:
        """What is asked, and the program that comes with it."""
        head = json.loads(await self._line())
        if head.get("do") != "exec":
            return head, ""
        size = int(await self._line())
        while len(self._held) < size <= LARGEST:
            await self._more()
        program, self._held = self._held[:size], self._held[size:]
        return head, program.decode("utf-8", "surrogateescape")

    async def _line(self) -> bytes:
        while b"\n" not in self._held:
            await self._more()
        line, _, self._held = self._held.partition(b"\n")
        return line

    async def _more(self) -> None:
        while True:
            await streams.readable(self._link.fileno())
            try:
                data, fds, _, _ = socket.recv_fds(self._link, 65536, 3)
            except BlockingIOError:
                continue
            except OSError:
                raise _Gone from None
            self.fds += fds
            if not data or len(self._held) > LARGEST:
                raise _Gone
            self._held += data
            return

    async def until_gone(self) -> None:
        """Hear of new sizes of the terminal until the client goes."""
        try:
            while True:
                rows, columns = json.loads(await self._line())["size"]
                self._size = int(rows), int(columns)
                self._resized.set()
        except (_Gone, ValueError, TypeError, LookupError):
            return

    async def fit(self, command: Command) -> None:
        """Give a command's terminal the newest size that we heard of, also of those before it ran; again if that fails."""
        while True:
            await self._resized.wait()
            self._resized.clear()
            try:
                await command.resize(*self._size)
            except Exception:
                await asyncio.sleep(AGAIN)
                self._resized.set()

    async def keeps(self) -> bool:
        """Whether the client says that it has written down what it was told, or goes before."""
        try:
            return bool(json.loads(await self._line()).get("kept"))
        except (_Gone, ValueError):
            return False

    async def send(self, **answer: object) -> None:
        """Answer; it does not matter when nobody hears it."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._link, json.dumps(answer).encode() + b"\n")
        except OSError:
            pass

    def note(self, text: str) -> None:
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


class Server:
    """Serves one engine at one path."""

    def __init__(self, path: str, engine: Engine, linger: float) -> None:
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
        while self._is_wanted(mine):
            await asyncio.sleep(min(1.0, self._linger))
        if _inode(self._path) == mine:
            os.unlink(self._path)
        # Whoever came before that is served; nobody can come any more.
        await asyncio.sleep(0)
        accepting.cancel()
        self._take_waiting(listener)
        while self._clients:
            await asyncio.wait(self._clients)
        await self._engine.close()

    def _is_wanted(self, mine: int) -> bool:
        if self._clients:
            self._last = time.monotonic()
        return time.monotonic() - self._last < self._linger and _inode(self._path) == mine

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await streams.readable(listener.fileno())
            if not self._take_waiting(listener):
                await asyncio.sleep(FULL)

    def _take_waiting(self, listener: socket.socket) -> bool:
        """Accept who waits; whether that is all of them: no more files may be opened for the others."""
        while True:
            try:
                link = Link(listener.accept()[0])
            except OSError as error:
                return isinstance(error, BlockingIOError)
            task = asyncio.get_running_loop().create_task(self._client(link))
            self._clients.add(task)
            task.add_done_callback(self._clients.discard)

    async def _client(self, link: Link) -> None:
        try:
            head, program = await link.request()
            if head["do"] == "exec":
                await self._exec(link, head, program)
            else:
                await self._call(link, head)
        except _Gone:
            pass
        except Refused as error:
            await link.send(error={"kind": error.kind, "message": error.message})
        except Exception as error:
            traceback.print_exc()
            await link.send(error={"kind": "other", "message": f"{type(error).__name__}: {error}"})
        finally:
            self._last = time.monotonic()
            link.close()

    async def _call(self, link: Link, head: dict[str, Any]) -> None:
        verb = getattr(self._engine, "do_" + str(head.pop("do")), None)
        if verb is None:
            raise Refused("usage", "there is no such verb")
        task = asyncio.ensure_future(verb(link.note, **head))
        if not await _outlives(task, link.until_gone()):
            task.cancel()
            await asyncio.wait([task])
            raise _Gone
        answer = task.result()
        if not isinstance(answer, Made):
            await link.send(answer=answer)
            return
        await link.send(answer=answer.answer)
        if not await link.keeps():
            await answer.undo()

    async def _exec(self, link: Link, head: dict[str, Any], program: str) -> None:
        await link.send(taken=True)
        if len(link.fds) < 3:
            raise Refused("busy", "too many commands run at once: see ulimit -n")
        gone = asyncio.ensure_future(link.until_gone())
        fitting: asyncio.Future[None] | None = None
        try:
            if streams.is_nothing(link.fds[0]):  # spares many engines a call
                program = "exec </dev/null\n" + program
            if head.get("whole") and hasattr(self._engine, "whole"):
                await self._whole(link, gone, head["host"], program)
                return
            # Not cut short: then nobody would know whether it runs.
            command = await self._engine.exec(head["host"], program, head.get("terminal"))
            fitting = asyncio.ensure_future(link.fit(command))
            running = asyncio.ensure_future(_run(command, link))
            if not await _outlives(running, gone):
                running.cancel()
                await asyncio.wait([running])
                await command.kill()
                raise _Gone
            await link.send(code=running.result())
        except Refused as error:
            if not head.get("terminal"):
                _say(link.fds[2], f"{head['mark']} {error.kind}: {error.message}\n")
            raise
        finally:
            gone.cancel()
            if fitting is not None:
                fitting.cancel()

    async def _whole(self, link: Link, gone: Awaitable[None], host: dict[str, Any], program: str) -> None:
        """All at once: what goes in, and when it has ended, what came out."""
        data = await streams.take(link.fds[0])
        running = asyncio.ensure_future(self._engine.whole(host, program, data))  # type: ignore[attr-defined]
        if not await _outlives(running, gone):
            running.cancel()
            await asyncio.wait([running])
            raise _Gone
        out, err, code = running.result()
        await asyncio.gather(streams.give(out, link.fds[1]), streams.give(err, link.fds[2]))
        for at in (1, 2):
            link.close_fd(at)
        await link.send(code=code)


async def _outlives(task: asyncio.Future[T], gone: Awaitable[None]) -> bool:
    """Wait for the first of the two to end; whether it is the task."""
    watch = asyncio.ensure_future(gone)
    both: list[asyncio.Future[Any]] = [task, watch]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        return False
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)  # it listens no more
    return True


async def _run(command: Command, link: Link) -> int:
    """Streams both ways until the command has ended; its exit code, or 141 when nobody reads what it writes."""

    async def hand_out(at: int) -> None:
        try:
            await streams.drain(command.read(at), link.fds[at])
        finally:
            link.close_fd(at)

    nothing = streams.is_nothing(link.fds[0])
    feeding = asyncio.ensure_future(asyncio.sleep(0) if nothing else streams.feed(link.fds[0], command))
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


def _say(fd: int, text: str) -> None:
    try:
        os.write(fd, text.encode("utf-8", "replace"))
    except OSError:
        pass


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


class _Absent:
    """In the place of an engine that cannot be loaded: says so to everyone."""

    def __init__(self, error: Refused) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return self._refuse

    async def _refuse(self, *_: object, **__: object) -> Any:
        raise self._error

    async def close(self) -> None:
        pass


def load(name: str) -> type[Engine]:
    """The class `Engine` of a module by its dotted name, or of a file by its path."""
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name).Engine  # type: ignore[no-any-return]
        spec = importlib.util.spec_from_file_location("engine", name)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.Engine  # type: ignore[no-any-return]
    except ImportError as error:
        raise Refused("missing", str(error)) from error


def main(path: str, name: str) -> None:
    """Listen at `path` for the engine `name`; its settings and ours come as JSON."""
    words = json.load(sys.stdin)
    descriptors.allow_many()  # four for each command
    # The mark of a place that is taken: whoever connects from now on waits until we answer.
    fresh = f"{path}.{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(fresh)
    listener.listen(WAITING)
    os.rename(fresh, path)
    os.write(1, b"ready\n")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    linger = float(words["linger"])
    try:
        engine = load(name)(words["options"])
    except Refused as error:
        engine, linger = cast("Engine", _Absent(error)), 1.0
    asyncio.run(Server(path, engine, linger).serve(listener))
