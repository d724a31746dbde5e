"""A proxy in front of a socket, which can cut all connections."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Lock, Thread


class Cable:
    """Listens on its own path or port, and forwards everything to another one in both directions."""

    def __init__(self, path: Path | tuple[str, int], target: Path | tuple[str, int]) -> None:
        self.path = path
        self._target = target
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        """Let connections through. Does nothing when they already are."""
        if self._listener is None:
            self._listener = socket.socket(_family(self.path))
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(_address(self.path))
            if isinstance(self.path, tuple):
                self.path = self._listener.getsockname()
            self._listener.listen(100)
            Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Close every connection and refuse new ones."""
        if self._listener is not None:
            _end(self._listener)
            self._listener = None
            if isinstance(self.path, Path):
                self.path.unlink(missing_ok=True)
        with self._lock:
            for connection in self._open:
                _end(connection)
            self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client = listener.accept()[0]
            except OSError:
                return
            server = socket.socket(_family(self._target))
            server.connect(_address(self._target))
            with self._lock:
                self._open |= {client, server}
            for source, target in ((client, server), (server, client)):
                Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            _end(source)
            _end(target)


def _family(address: Path | tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET


def _address(address: Path | tuple[str, int]) -> str | tuple[str, int]:
    return str(address) if isinstance(address, Path) else address


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
