"""A host on a Ray cluster: an actor with a directory on its node and a process for all commands.

Ray sends this module to the cluster by value.

Calls start commands, feed them and read their output. A reader asks for more every few seconds; a command without a
reader is ended. Output that nobody asks for stays in the pipe, so memory does not grow.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from mngr.providers.ray.actor_command import (
    ActorCommand,
    make_pipes,
    make_terminal,
    read_streams,
    set_terminal_size,
    wait_readable,
    wait_writable,
)
from mngr.providers.ray.work_backup import WorkBackupThread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from mngr.providers.ray.actor_command import ActorOutput

    # The cluster has no mngr, so the actor exchanges plain dictionaries with mngr.

    class CompletePlan(TypedDict):
        """The fields of an ActorPlan, the request for resources and the text of host_init_process.py."""

        actor: str
        tag: str
        home: str
        author: list[str]
        backup_actor: str
        backup_dir: str
        request: dict[str, object]
        init_program: str


SHORT_COMMAND_SECONDS = 0.01  # a short command ends within this time, so its first answer is complete
POLL_TIMEOUT = 3.0  # seconds; an answer without data is sent after this time
ABANDON_SECONDS = 15.0  # a command without a reader is ended after this time
EXIT_DELAY = 5.0  # seconds; an actor that has left ends after this time
INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SHELL")
NAMESPACE_COMMANDS = (  # the first one that the node allows; otherwise none
    ("unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"),
    ("unshare", "--user", "--map-current-user", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"),
)
BOOT_PROGRAM = "import os; exec(os.environ.pop('PROGRAM'))"
# The process is no child of the actor, because Ray may kill those first. The host gets its own /tmp if possible.
ENTER_SCRIPT = 'mount --bind "$0" /tmp 2>/dev/null || :; exec "$@"'


class HostActor:
    """The actor of a host. `plan` says where its directory is, who the git author is, and which actor backs up its agents."""

    def __init__(self, plan: CompletePlan) -> None:
        self._plan = plan
        self.home = plan["home"]
        self._running: dict[str, ActorCommand] = {}
        self._link: socket.socket | None = None
        self._partial_line = b""
        self._namespace_command: tuple[str, ...] = ()
        self._opening: asyncio.Future[dict[str, str]] | None = None
        self._backup_thread: WorkBackupThread | None = None
        self._is_removing = False

    async def get_plan(self) -> dict[str, dict[str, object]]:
        """Return the plan and the request for resources of the actor, for a home that has lost them."""
        plan: dict[str, object] = {
            key: value for key, value in self._plan.items() if key not in ("init_program", "request")
        }
        return {"plan": plan, "request": self._plan["request"]}

    async def open_host(self) -> dict[str, str]:
        """Start the host process if it does not run, and return facts about the host."""
        if self._is_removing:
            raise RuntimeError("the host is being removed")  # Some of its files may be deleted already.
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._start_host_process())
        return await self._opening

    async def _start_host_process(self) -> dict[str, str]:
        """Create the host's directory, start the host process and the backup thread, and return facts."""
        for path in (self.home, os.path.join(self.home, ".tmp")):
            os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(os.path.join(self.home, ".tmp"), 0o1777)
        _write_git_author(self.home, self._plan["author"])
        self._namespace_command = next((words for words in NAMESPACE_COMMANDS if _can_run(words)), ())
        own_socket, child_socket = socket.socketpair()
        host_argv = [sys.executable, "-I", "-S", "-c", BOOT_PROGRAM, str(child_socket.fileno()), self._plan["tag"]]
        if self._namespace_command:
            host_argv = [
                *self._namespace_command,
                "sh",
                "-c",
                ENTER_SCRIPT,
                os.path.join(self.home, ".tmp"),
                *host_argv,
            ]
        argv = ["sh", "-c", '"$@" </dev/null >/dev/null &', "mngr-host", *host_argv]
        env = {**self._build_environment(), "MNGR_HOST_TAG": self._plan["tag"], "PROGRAM": self._plan["init_program"]}
        subprocess.run(argv, pass_fds=[child_socket.fileno()], cwd=self.home, env=env, check=True)
        child_socket.close()
        own_socket.setblocking(False)
        self._link = own_socket
        loop = asyncio.get_running_loop()
        self._send_lock = asyncio.Lock()
        self._ready: asyncio.Future[int] = loop.create_future()
        loop.add_reader(own_socket.fileno(), self._read_host_process)
        await asyncio.wait_for(self._ready, 30)
        self._abandoned_check = asyncio.ensure_future(self._kill_abandoned())
        if self._plan.get("backup_actor"):
            backup = (self._plan["backup_actor"], self._plan["backup_dir"])
            self._backup_thread = WorkBackupThread(self._plan["tag"], backup, self.home, self._capture_output)
            self._backup_thread.start()
        return {"space": "own" if self._namespace_command else "shared", **get_node()}

    def _build_environment(self) -> dict[str, str]:
        return {**{name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}, "HOME": self.home}

    def _read_host_process(self) -> None:
        """Handle messages of the host process."""
        assert self._link is not None
        try:
            data = self._link.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            os._exit(1)  # The host has ended. It can be started again from its directory.
        self._partial_line += data
        *lines, self._partial_line = self._partial_line.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ready" in message:
                self._ready.set_result(message["ready"])
            elif (command := self._running.get(message["key"])) is None:
                continue
            elif "pid" in message:
                command.started.set_result(None)
            elif not command.code.done():
                command.code.set_result(message["code"])

    async def _send_request(self, row: dict[str, object], fds: tuple[int, ...] = ()) -> None:
        """Send a request with descriptors to the host process."""
        assert self._link is not None
        body = json.dumps(row).encode()
        async with self._send_lock:
            while True:
                try:
                    socket.send_fds(self._link, [struct.pack("!I", len(body))], fds)
                    break
                except BlockingIOError:
                    await asyncio.sleep(0.01)
            await asyncio.get_running_loop().sock_sendall(self._link, body)

    # Commands

    async def start_command(self, key: str, program: str, terminal: tuple[int, int, str] | None) -> ActorOutput:
        """Start an sh program and return the first answer of `poll_output`."""
        await self.open_host()
        loop = asyncio.get_running_loop()
        env = self._build_environment()
        if terminal:
            own_fds, child_fds, fd = make_terminal(terminal[0], terminal[1])
            env["TERM"] = terminal[2]
        else:
            own_fds, child_fds, fd = make_pipes()
        self._running[key] = command = ActorCommand(loop, own_fds, fd)
        try:
            request: dict[str, object] = {
                "key": key,
                "argv": ["sh", "-c", program],
                "env": env,
                "terminal": bool(terminal),
            }
            await self._send_request(request, child_fds)
        finally:
            for child_fd in child_fds:
                os.close(child_fd)
        await command.started
        return await self.poll_output(key, list(command.output), SHORT_COMMAND_SECONDS)

    async def poll_output(self, key: str, wanted: list[int], patience: float = POLL_TIMEOUT) -> ActorOutput:
        """Return new data of these streams and the streams that have ended, waiting at most `patience` seconds.

        The answer contains the exit code when the command and all its streams have ended.
        """
        command = self._running[key]
        command.open_polls += 1
        try:
            answer = read_streams(command, wanted)
            if not answer["data"] and not answer["ended"] and not (command.code.done() and not command.output):
                fds = [command.output[stream] for stream in wanted if stream in command.output]
                await wait_readable(command, fds, patience)
                answer = read_streams(command, wanted)
        finally:
            command.open_polls -= 1
            command.last_asked_at = time.monotonic()
        if not command.output and command.code.done():
            answer["code"] = command.code.result()
            self._forget_command(key)
        return answer

    async def write(self, key: str, data: bytes, *, last: bool = False) -> None:
        """Write input and return when the command has taken it. Input that nobody reads is dropped."""
        command = self._running.get(key)
        remaining = memoryview(data)
        while command is not None and command.input >= 0 and remaining:
            try:
                remaining = remaining[os.write(command.input, remaining) :]
            except BlockingIOError:
                await wait_writable(command)
            except OSError:
                break
        if last and command is not None and command.input >= 0 and command.terminal < 0:
            os.close(command.input)
            command.input = -1

    async def resize(self, key: str, rows: int, columns: int) -> None:
        """Set the size of the command's terminal."""
        command = self._running.get(key)
        if command is not None and command.terminal >= 0:
            set_terminal_size(command.terminal, rows, columns)

    async def kill(self, key: str) -> None:
        """End a command and its children, but not its background processes."""
        command = self._running.get(key)
        if command is None:
            return
        command.close()
        await self._send_request({"key": key, "signal": int(signal.SIGHUP), "whole": True})
        await self._send_request({"key": key, "signal": int(signal.SIGTERM), "whole": True})
        done, _ = await asyncio.wait([command.code], timeout=2.0)
        if not done:
            await self._send_request({"key": key, "signal": int(signal.SIGKILL), "whole": True})
        self._forget_command(key)

    async def is_being_removed(self) -> bool:
        """True when the host and its files are being removed."""
        return self._is_removing

    async def remove_host(self) -> None:
        """End all processes and delete the directory. The actor then ends, unless the caller kills it first."""
        self._is_removing = True
        if self._opening is not None:  # A start may be in progress.
            await asyncio.wait([self._opening])
        if self._backup_thread is not None:
            self._backup_thread.stop()
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
        command = self._running.pop(key, None)
        if command is not None:
            command.close()

    async def _kill_abandoned(self) -> None:
        """End commands whose reader has stopped open_polls."""
        while True:
            await asyncio.sleep(2.0)
            now = time.monotonic()
            for key, command in list(self._running.items()):
                if not command.open_polls and now - command.last_asked_at > ABANDON_SECONDS:
                    await self.kill(key)

    async def _capture_output(self, program: str, max_bytes: int) -> bytes | None:
        """Run a program on the host and return its output. Return None if it fails or writes too much."""
        key, parts, size = os.urandom(8).hex(), [], 0
        answer = await self.start_command(key, program, None)
        await self.write(key, b"", last=True)
        while True:
            for stream, data in answer["data"].items():
                if stream == 1:
                    parts.append(data)
                    size += len(data)
            if size > max_bytes:
                await self.kill(key)
                return None
            if "code" in answer:
                return b"".join(parts) if answer["code"] == 0 else None
            answer = await self.poll_output(key, [1, 2])


def get_node() -> dict[str, str]:
    """Return the id and address of this node."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    return {"node": ray.get_runtime_context().get_node_id(), "address": ray.util.get_node_ip_address()}


def has_directory(path: str) -> bool:
    """True when the directory exists."""
    return os.path.isdir(path)


def remove_directory(path: str) -> None:
    """Delete a directory, whatever its modes. It retries because dying processes may still write there."""
    for _ in range(100):
        if not os.path.lexists(path):
            return
        shutil.rmtree(path, ignore_errors=True)
        if os.path.lexists(path):
            subprocess.run(["chmod", "-R", "u+rwX", path], stderr=subprocess.DEVNULL, check=False)
            time.sleep(0.02)


def _write_git_author(home: str, author: list[str]) -> None:
    """Set the git author, so that agents commit under the user's name."""
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
