"""The first process of a host on a Ray node; run on its own, it is sent there as text. All others of the host come from it.

It has a socket to the actor. When that closes, be it because the actor was killed, it ends, and nothing of the host is left:
in a pid namespace the kernel sees to that, elsewhere (`pid` is not 1) it ends whoever has the host's mark.
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

MARKER_VARIABLE = "MNGR_ROOM"  # the variable by which the processes of a host are known


class HostProcess:
    """Starts what the actor asks for, and says how each has ended."""

    def __init__(self, link: socket.socket, mark: str) -> None:
        self._link = link
        self._mark = mark
        self._keys: dict[int, str] = {}

    def serve(self) -> None:
        """Until the actor is gone."""
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
        """Do one thing that was asked for; False when nobody asks any more."""
        head, fds, _, _ = socket.recv_fds(self._link, 4, 3)
        if len(head) < 4:
            return False
        body = _read_exactly(self._link, struct.unpack("!I", head)[0])
        if body is None:
            return False
        asked = json.loads(body)
        if "argv" in asked:
            self._start_command(asked, fds)
        else:
            self._signal_command(asked["key"], asked["signal"], whole=asked["whole"])
        for fd in fds:
            os.close(fd)
        return True

    def _start_command(self, asked: dict, fds: list) -> None:  # type: ignore[type-arg]
        """Start a command; one for which there is no process any more ends at once, and nothing else with it."""
        key = asked["key"]
        try:
            pid = self._spawn(asked, fds)
        except OSError as error:
            self._send_row({"key": key, "pid": 0})
            try:
                os.write(fds[-1], f"no process could be started: {error.strerror}\n".encode())
            except OSError:
                pass  # nobody reads it
            self._send_row({"key": key, "code": 126})
        else:
            self._keys[pid] = key
            self._send_row({"key": key, "pid": pid})

    def _spawn(self, asked: dict, fds: list) -> int:  # type: ignore[type-arg]
        pid = os.fork()
        if pid:
            return pid
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            if asked["terminal"]:
                fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
            for at, fd in enumerate(fds if len(fds) == 3 else fds * 3):
                os.dup2(fd, at)
            os.closerange(3, 256)
            os.execvpe(asked["argv"][0], asked["argv"], {**asked["env"], MARKER_VARIABLE: self._mark})
        except BaseException as error:
            os.write(2, f"{error}\n".encode())
        finally:
            os._exit(127)

    def _signal_command(self, key: str, number: int, *, whole: bool) -> None:
        for pid, of in self._keys.items():
            if of == key:
                try:
                    (os.killpg if whole else os.kill)(pid, number)
                except OSError:
                    pass

    def _reap_children(self) -> None:
        """Also of what others left to us."""
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
            pass  # then there is nothing to hear either


def kill_all(mark: str) -> None:
    """End every process with the mark; once more, for some may have been just starting others."""
    wanted = f"{MARKER_VARIABLE}={mark}".encode()
    while True:
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has_marker(pid, wanted)]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        select.select([], [], [], 0.02)


def _has_marker(pid: int, wanted: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            if b") Z" in file.read():
                return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return pid != os.getpid() and wanted in file.read().split(b"\0")
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
        more = link.recv(size - len(data))
        if not more:
            return None
        data += more
    return data


if __name__ == "__main__":
    room = HostProcess(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    os.set_inheritable(int(sys.argv[1]), False)
    room.serve()
    if os.getpid() != 1:
        kill_all(sys.argv[2])
