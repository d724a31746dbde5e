"""A host on a Ray cluster: an actor with a directory on its node and a room in which everything runs. Sent there by value.

Commands are started, fed and read by calls. Whoever reads asks for more every few seconds, and one whose reader does not is
ended; what is not asked for stays in the pipe, so that nothing grows.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time

from mngr.providers.ray.work_backup import WorkBackupThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHUNK_SIZE = 96 * 1024  # bytes of an answer: larger ones would take the way through the object store
SHORT_COMMAND_SECONDS = (
    0.01  # seconds within which a short command has ended, and its first answer is all there is to say
)
POLL_TIMEOUT = 3.0  # seconds without news before an answer without any
ABANDON_SECONDS = 15.0  # seconds without a question before a command has nobody any more
EXIT_DELAY = 5.0  # seconds that an actor stays that has nothing any more
SET_PIPE_SIZE = 1031
INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL")
NAMESPACE_COMMANDS = (  # the most that the node allows; at last none
    ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"),
    ("unshare", "--user", "--map-current-user", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"),
)
BOOT_PROGRAM = "import os; exec(os.environ.pop('PROGRAM'))"
# Not a child of the actor's, which Ray may end before the others; /tmp is the host's own where that can be had.
ENTER_SCRIPT = 'mount --bind "$0" /tmp 2>/dev/null || :; exec "$@"'


class ActorCommand:
    """A command of the host."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ours: dict[int, int], terminal: int) -> None:
        self.input = ours.pop(0)
        self.output = ours  # stream: descriptor; those that have ended are not in it
        self.terminal = terminal
        self.code: asyncio.Future[int] = loop.create_future()
        self.started: asyncio.Future[None] = loop.create_future()
        self.heard = time.monotonic()
        self.asking = 0

    def close(self) -> None:
        for fd in {self.input, self.terminal, *self.output.values()}:
            if fd >= 0:
                os.close(fd)
        self.input = self.terminal = -1
        self.output = {}


class HostActor:
    """The actor. `about`: tag, home, room (its program), wish, author, keeper (who keeps what agents do) and where: kept."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._about = about
        self.home = str(about["home"])
        self._running: dict[str, ActorCommand] = {}
        self._link: socket.socket | None = None
        self._held = b""
        self._space: tuple[str, ...] = ()
        self._opening: asyncio.Future[dict[str, Any]] | None = None
        self._pusher: WorkBackupThread | None = None
        self._has_left = False

    async def plan(self) -> dict[str, Any]:
        """What it was made from, for a home that does not know it any more."""
        about = {key: value for key, value in self._about.items() if key not in ("room", "wish")}
        return {"about": about, "wish": self._about["wish"]}

    async def open(self) -> dict[str, Any]:
        """Have the room ready; what there is to know of it."""
        if self._has_left:
            raise RuntimeError("the host is being taken away")  # what is still there is not all
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._start_host_process())
        return await self._opening

    async def _start_host_process(self) -> dict[str, Any]:
        for path in (self.home, os.path.join(self.home, ".tmp")):
            os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(os.path.join(self.home, ".tmp"), 0o1777)
        _write_git_author(self.home, self._about["author"])
        self._space = next((words for words in NAMESPACE_COMMANDS if _can_run(words)), ())
        ours, theirs = socket.socketpair()
        room = [sys.executable, "-I", "-S", "-c", BOOT_PROGRAM, str(theirs.fileno()), self._about["tag"]]
        if self._space:
            room = [*self._space, "sh", "-c", ENTER_SCRIPT, os.path.join(self.home, ".tmp"), *room]
        argv = ["sh", "-c", '"$@" </dev/null >/dev/null &', "room", *room]
        env = {**self._build_environment(), "MNGR_ROOM": self._about["tag"], "PROGRAM": self._about["room"]}
        subprocess.run(argv, pass_fds=[theirs.fileno()], cwd=self.home, env=env, check=True)
        theirs.close()
        ours.setblocking(False)
        self._link = ours
        loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._ready: asyncio.Future[int] = loop.create_future()
        loop.add_reader(ours.fileno(), self._read_host_process)
        await asyncio.wait_for(self._ready, 30)
        self._sweeping = asyncio.ensure_future(self._kill_abandoned())
        if self._about.get("keeper"):
            self._pusher = WorkBackupThread(self._about, self.home, self._capture_output)
            self._pusher.start()
        return {"space": "own" if self._space else "shared", **get_node()}

    def _build_environment(self) -> dict[str, str]:
        return {**{k: os.environ[k] for k in INHERITED_VARIABLES if k in os.environ}, "HOME": self.home}

    def _read_host_process(self) -> None:
        """What the room says."""
        assert self._link is not None
        try:
            data = self._link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            os._exit(1)  # nothing of the host runs any more: it can be started again from its directory
        self._held += data
        *lines, self._held = self._held.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "ready" in said:
                self._ready.set_result(said["ready"])
            elif (one := self._running.get(said["key"])) is None:
                continue
            elif "pid" in said:
                one.started.set_result(None)
            elif not one.code.done():
                one.code.set_result(said["code"])

    async def _send_request(self, row: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        assert self._link is not None
        body = json.dumps(row).encode()
        async with self._turn:
            while True:
                try:
                    socket.send_fds(self._link, [struct.pack("!I", len(body))], fds)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.01)
            await asyncio.get_running_loop().sock_sendall(self._link, body)

    # Commands

    async def run(self, key: str, program: str, terminal: list[Any] | None) -> dict[str, Any]:
        """Start a program of sh; the first answer."""
        await self.open()
        loop = asyncio.get_running_loop()
        env = self._build_environment()
        if terminal:
            ours, theirs, fd = _make_terminal(*terminal[:2])
            env["TERM"] = terminal[2]
        else:
            ours, theirs, fd = _make_pipes()
        self._running[key] = one = ActorCommand(loop, ours, fd)
        try:
            words = {"key": key, "argv": ["sh", "-c", program], "env": env, "terminal": bool(terminal)}
            await self._send_request(words, theirs)
        finally:
            for each in theirs:
                os.close(each)
        await one.started
        return await self.pull(key, list(one.output), SHORT_COMMAND_SECONDS)

    async def pull(self, key: str, wanted: list[int], patience: float = POLL_TIMEOUT) -> dict[str, Any]:
        """What came on these streams, which have ended, and the exit code when all have: as soon as there is something."""
        one = self._running[key]
        one.asking += 1
        try:
            answer = _read_streams(one, wanted)
            if not answer["data"] and not answer["ended"] and not (one.code.done() and not one.output):
                await _wait_readable(one, [one.output[at] for at in wanted if at in one.output], patience)
                answer = _read_streams(one, wanted)
        finally:
            one.asking -= 1
            one.heard = time.monotonic()
        if not one.output and one.code.done():
            answer["code"] = one.code.result()
            self._forget_command(key)
        return answer

    async def write(self, key: str, data: bytes, *, last: bool = False) -> None:
        """Input; returns when the command has taken it. What nobody reads is dropped."""
        one = self._running.get(key)
        left = memoryview(data)
        while one is not None and one.input >= 0 and left:
            try:
                left = left[os.write(one.input, left) :]
            except BlockingIOError:
                await _wait_writable(one)
            except OSError:
                break
        if last and one is not None and one.input >= 0 and one.terminal < 0:
            os.close(one.input)
            one.input = -1

    async def resize(self, key: str, rows: int, columns: int) -> None:
        """Its terminal has another size."""
        one = self._running.get(key)
        if one is not None and one.terminal >= 0:
            _set_size(one.terminal, rows, columns)

    async def kill(self, key: str) -> None:
        """End a command and what it started, unless that has gone into the background."""
        one = self._running.get(key)
        if one is None:
            return
        one.close()
        await self._send_request({"key": key, "signal": int(signal.SIGHUP), "whole": True})
        await self._send_request({"key": key, "signal": int(signal.SIGTERM), "whole": True})
        done, _ = await asyncio.wait([one.code], timeout=2.0)
        if not done:
            await self._send_request({"key": key, "signal": int(signal.SIGKILL), "whole": True})
        self._forget_command(key)

    async def is_leaving(self) -> bool:
        """Whether it is being taken away, and its files with it."""
        return self._has_left

    async def leave(self) -> None:
        """End everything and delete the directory; then ourselves, unless who asked for it is faster."""
        self._has_left = True
        if self._opening is not None:  # it may have been asked for just before us
            await asyncio.wait([self._opening])
        if self._pusher is not None:
            self._pusher.stop()
        if self._link is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._link.fileno())
            self._link.setblocking(True)
            self._link.shutdown(socket.SHUT_WR)
            while await loop.run_in_executor(None, self._link.recv, 65536):
                pass
            self._link.close()
        await asyncio.get_running_loop().run_in_executor(None, remove_directory, self.home)
        asyncio.get_running_loop().call_later(EXIT_DELAY, os._exit, 0)

    def _forget_command(self, key: str) -> None:
        one = self._running.pop(key, None)
        if one is not None:
            one.close()

    async def _kill_abandoned(self) -> None:
        """End what nobody asks after any more."""
        while True:
            await asyncio.sleep(2.0)
            now = time.monotonic()
            for key, one in list(self._running.items()):
                if not one.asking and now - one.heard > ABANDON_SECONDS:
                    await self.kill(key)

    async def _capture_output(self, program: str, most: int) -> bytes | None:
        """What a program in the room writes, for ourselves; None when it fails or that is too much."""
        key, parts, size = os.urandom(8).hex(), [], 0
        answer = await self.run(key, program, None)
        await self.write(key, b"", last=True)
        while True:
            for at, data in answer["data"].items():
                if at == 1:
                    parts.append(data)
                    size += len(data)
            if size > most:
                await self.kill(key)
                return None
            if "code" in answer:
                return b"".join(parts) if answer["code"] == 0 else None
            answer = await self.pull(key, [1, 2])


def get_node() -> dict[str, str]:
    """The node that we are on."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    return {"node": ray.get_runtime_context().get_node_id(), "address": ray.util.get_node_ip_address()}


def has_directory(path: str) -> bool:
    """Whether there is a directory."""
    return os.path.isdir(path)


def remove_directory(path: str) -> None:
    """Delete a directory, whatever its modes; who is just being ended may still write there."""
    for _ in range(100):
        if not os.path.lexists(path):
            return
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            subprocess.run(["chmod", "-R", "u+rwX", path], stderr=subprocess.DEVNULL, check=False)
            time.sleep(0.02)


def _write_git_author(home: str, author: list[str]) -> None:
    """Whoever works there commits in the user's name."""
    path = os.path.join(home, ".gitconfig")
    if not os.path.lexists(path) and any(author):
        for key, value in (("user.name", author[0]), ("user.email", author[1])):
            if value:
                subprocess.run(["git", "config", "--file", path, key, value], check=False)


def _can_run(words: tuple[str, ...]) -> bool:
    try:
        return subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _make_pipes() -> tuple[dict[int, int], tuple[int, ...], int]:
    in_r, in_w = os.pipe()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    for fd in (in_w, out_r, err_r):
        os.set_blocking(fd, False)
    for fd in (in_w, out_r):
        try:
            fcntl.fcntl(fd, SET_PIPE_SIZE, 1 << 20)
        except OSError:
            pass  # it stays as small as it is
    return {0: in_w, 1: out_r, 2: err_r}, (in_r, out_w, err_w), -1


def _make_terminal(rows: int, columns: int) -> tuple[dict[int, int], tuple[int, ...], int]:
    ours, theirs = os.openpty()
    _set_size(ours, rows, columns)
    os.set_blocking(ours, False)
    return {0: ours, 1: ours}, (theirs,), ours


def _set_size(fd: int, rows: int, columns: int) -> None:
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _read_streams(one: ActorCommand, wanted: list[int]) -> dict[str, Any]:
    """What is there now."""
    data: dict[int, bytes] = {}
    ended = []
    for at in wanted:
        fd = one.output.get(at, -1)
        if fd < 0:
            continue
        room = CHUNK_SIZE - sum(map(len, data.values()))
        try:
            part = os.read(fd, room) if room else None
        except BlockingIOError:
            continue
        except OSError:  # a terminal that nobody has open
            part = b""
        if part:
            data[at] = part
        elif part is not None:
            ended.append(at)
            one.output.pop(at)
            if fd != one.terminal:
                os.close(fd)
    return {"data": data, "ended": ended}


async def _wait_readable(one: ActorCommand, fds: list[int], patience: float) -> None:
    """Wait until one can be read, or until the command has ended and all of its streams."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def wake(*_: object) -> None:
        if not done.done():
            done.set_result(None)

    for fd in fds:
        loop.add_reader(fd, wake)
    if not one.output:
        one.code.add_done_callback(wake)
    try:
        await asyncio.wait([done], timeout=patience)
    finally:
        one.code.remove_done_callback(wake)
        for fd in fds:
            loop.remove_reader(fd)


async def _wait_writable(one: ActorCommand) -> None:
    """Wait until its input takes more, or until it has ended."""
    loop = asyncio.get_running_loop()
    fd = one.input
    done: asyncio.Future[int] = loop.create_future()

    def wake() -> None:
        if not done.done():
            done.set_result(0)

    loop.add_writer(fd, wake)
    try:
        await asyncio.wait([done, one.code], return_when=asyncio.FIRST_COMPLETED)
    finally:
        loop.remove_writer(fd)
    if one.code.done() and one.input >= 0 and one.input != one.terminal:
        os.close(one.input)
        one.input = -1
