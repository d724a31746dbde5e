"""Servers, a process and shared memory of the user that no agent may reach."""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import subprocess
from pathlib import Path

_IPC_CREAT, _IPC_RMID, _SIZE = 0o1000, 0, 4096


class Services:
    """Everything that runs outside. Leaving the `with` block ends it."""

    def __init__(self, directory: Path, secret: str, uid: int) -> None:
        self._directory, self._secret, self._uid = directory, secret, uid
        self.variables: dict[str, str] = {}

    def __enter__(self) -> Services:
        name = f"mngr-{os.getpid()}-{secrets.token_hex(4)}"
        path = str(self._directory / "marks" / "socket")
        self._tcp = socket.create_server(("127.0.0.1", 0))
        port = self._tcp.getsockname()[1]
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", port))
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind(f"\0{name}")
        self._datagram = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._datagram.bind(f"\0{name}-datagram")
        self._file = socket.socket(socket.AF_UNIX)
        self._file.bind(path)
        os.chmod(path, 0o777)
        for server in (self._abstract, self._file):
            server.listen(8)
        self._sockets = {
            "tcp": self._tcp,
            "udp": self._udp,
            "abstract": self._abstract,
            "datagram": self._datagram,
            "file": self._file,
        }
        for server in self._sockets.values():
            server.setblocking(False)
        self._victim = subprocess.Popen(
            ["sleep", "1000"],
            env={"PATH": os.environ["PATH"], "TOKEN": self._secret},
            user=self._uid if self._uid != os.getuid() else None,
        )
        self._priority = os.getpriority(os.PRIO_PROCESS, self._victim.pid)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._memory = self._libc.shmget(0, _SIZE, _IPC_CREAT | 0o666)
        self.variables = {"PORT": str(port), "ABSTRACT": name, "SOCKET": path, "VICTIM": str(self._victim.pid)}
        return self

    def __exit__(self, *_: object) -> None:
        self._libc.shmctl(self._memory, _IPC_RMID, None)
        self._victim.kill()
        self._victim.wait()
        for server in self._sockets.values():
            server.close()

    def list_marks(self) -> list[str]:
        """Return the servers that were reached since the last call, and whether the process has ended or changed."""
        marks = [f"reached {name}" for name, server in self._sockets.items() if self._was_reached(server)]
        if self._victim.poll() is not None:
            marks.append("ended the process")
        elif os.getpriority(os.PRIO_PROCESS, self._victim.pid) != self._priority:
            marks.append("changed the process")
        return marks

    def _was_reached(self, server: socket.socket) -> bool:
        try:
            if server.type == socket.SOCK_DGRAM:
                return bool(server.recv(100))
            server.accept()[0].close()
        except BlockingIOError:
            return False
        return True
