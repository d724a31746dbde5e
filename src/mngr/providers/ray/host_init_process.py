"""The first process of a host on a Ray node. The actor sends its text there; all processes of the host descend from it.

It has a socket to the actor. When the socket closes, also because the actor was killed, it ends with the whole host.
In a pid namespace the kernel ends the other processes. Elsewhere (`pid` is not 1) it ends every process with the mark.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import termios

MARKER_VARIABLE = "MNGR_HOST_TAG"  # the variable that identifies the processes of a host


class HostProcess:
    """Starts the commands that the actor asks for and reports their exit codes."""

    def __init__(self, link: socket.socket, mark: str) -> None:
        self._link = link
        self._mark = mark
        self._keys: dict[int, str] = {}

    def serve(self) -> None:
        """Serve requests until the actor is gone."""
        wake_r, wake_w = os.pipe()
        for fd in (wake_r, wake_w):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(wake_w, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._send_row({"ready": os.getpid()})
        poll = select.poll()
        for fd in (wake_r, self._link.fileno()):
            poll.register(fd, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if wake_r in ready:
                _drain_pipe(wake_r)
                self._reap_children()
            if self._link.fileno() in ready and not self._handle_request():
                return

    def _handle_request(self) -> bool:
        """Handle one request. Return False when the actor is gone."""
        head, fds, _, _ = socket.recv_fds(self._link, 4, 3)
        if len(head) < 4:
            return False
        body = _read_exactly(self._link, struct.unpack("!I", head)[0])
        if body is None:
            return False
        request = json.loads(body)
        if "argv" in request:
            self._start_command(request, fds)
        else:
            self._signal_command(request["key"], request["signal"], whole=request["whole"])
        for fd in fds:
            os.close(fd)
        return True

    def _start_command(self, request: dict, fds: list) -> None:  # type: ignore[type-arg]
        """Start a command. If no process can be started, the command ends with code 126."""
        key = request["key"]
        try:
            pid = self._spawn(request, fds)
        except OSError as error:
            self._send_row({"key": key, "pid": 0})
            try:
                os.write(fds[-1], f"no process could be started: {error.strerror}\n".encode())
            except OSError:
                pass  # Nobody reads the message.
            self._send_row({"key": key, "code": 126})
        else:
            self._keys[pid] = key
            self._send_row({"key": key, "pid": pid})

    def _spawn(self, request: dict, fds: list) -> int:  # type: ignore[type-arg]
        """Fork and execute a command in its own session, and return its pid."""
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            if request["terminal"]:
                fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
            for target_fd, fd in enumerate(fds if len(fds) == 3 else fds * 3):
                os.dup2(fd, target_fd)
            os.closerange(3, 256)
            os.execvpe(request["argv"][0], request["argv"], {**request["env"], MARKER_VARIABLE: self._mark})
        except BaseException as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)

    def _signal_command(self, key: str, number: int, *, whole: bool) -> None:
        """Send a signal to a command, or with `whole` to its process group."""
        for pid, command_key in self._keys.items():
            if command_key == key:
                try:
                    (os.killpg if whole else os.kill)(pid, number)
                except OSError:
                    pass

    def _reap_children(self) -> None:
        """Reap ended children, including orphans, and report the exit codes of commands."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            key = self._keys.pop(pid, None)
            if key is not None:
                code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
                self._send_row({"key": key, "code": code})

    def _send_row(self, row: dict) -> None:  # type: ignore[type-arg]
        try:
            self._link.sendall(json.dumps(row).encode() + b"\n")
        except OSError:
            pass  # The actor is gone, and `serve` notices it.


def kill_all(mark: str) -> None:
    """Kill every process with the mark, repeatedly, because some may have just started others."""
    marker = f"{MARKER_VARIABLE}={mark}".encode()
    while True:
        pids = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has_marker(pid, marker)]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        select.select([], [], [], 0.02)


def _has_marker(pid: int, marker: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            if b") Z" in file.read():
                return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return pid != os.getpid() and marker in file.read().split(b"\0")
    except OSError:
        return False


def _drain_pipe(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass


def _read_exactly(link: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        chunk = link.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return data


if __name__ == "__main__":
    host_process = HostProcess(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    os.set_inheritable(int(sys.argv[1]), False)
    host_process.serve()
    if os.getpid() != 1:
        kill_all(sys.argv[2])
