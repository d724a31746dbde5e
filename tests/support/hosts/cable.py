"""A cable in front of a socket: what goes through it arrives, until it is cut."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Lock, Thread


class Cable:
    """Listens at a path of its own, or at a port of its own, and passes everything on to another, both ways."""

    def __init__(self, path: Path | tuple[str, int], target: Path | tuple[str, int]) -> None:
        self.path = path
        self._target = target
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.mend()

    def mend(self) -> None:
        """Let connections through; does nothing when they are."""
        if self._listener is None:
            self._listener = socket.socket(_family(self.path))
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(_address(self.path))
            if isinstance(self.path, tuple):
                self.path = self._listener.getsockname()
            self._listener.listen(100)
            Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Lose every connection and let no new one through."""
        if self._listener is not None:
            _end(self._listener)
            self._listener = None
            if isinstance(self.path, Path):
                self.path.unlink(missing_ok=True)
        with self._lock:
            for one in self._open:
                _end(one)
            self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near = listener.accept()[0]
            except OSError:
                return
            far = socket.socket(_family(self._target))
            far.connect(_address(self._target))
            with self._lock:
                self._open |= {near, far}
            for a, b in ((near, far), (far, near)):
                Thread(target=self._pass_on, args=(a, b), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            _end(source)
            _end(target)


def _family(place: Path | tuple[str, int]) -> socket.AddressFamily:
    return socket.AF_UNIX if isinstance(place, Path) else socket.AF_INET


def _address(place: Path | tuple[str, int]) -> str | tuple[str, int]:
    return str(place) if isinstance(place, Path) else place


def _end(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    one.close()
