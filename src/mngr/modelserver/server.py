"""The server: threads of this process, on an address of this machine."""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
from socketserver import TCPServer, ThreadingMixIn
from typing import Any, Self
from urllib.parse import quote

from mngr.errors import MngrError
from mngr.modelserver.handler import Handler
from mngr.modelserver.log import Log
from mngr.modelserver.play import Plays
from mngr.modelserver.script import parse_script


class Server(ThreadingMixIn, TCPServer):
    """A thread for each connection; none of them can end it."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    timeout = 0

    def __init__(self, listen: str, port: int, plays: Plays, log: Log) -> None:
        self.plays = plays
        self.log = log
        self.ended = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self.address_family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        super().__init__((listen, port), Handler)

    def serve(self) -> None:
        """Take connections until `stop`; unlike `serve_forever` it wakes for nothing else, and ends at once."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self.ended.is_set():
                if any(key.fileobj is self.socket for key, _ in selector.select()):
                    self.handle_request()

    def stop(self) -> None:
        """Take no more connections."""
        self.ended.set()
        self._wake.send(b".")

    def end_connections(self) -> None:
        """Wake every thread that waits for a client."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is gone already

    def server_close(self) -> None:
        super().server_close()
        self._wake.close()
        self._woken.close()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(0.1)  # until one of the others ends; without it this would spin
            raise
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's concern; anything else stands in the log."""


class ModelServer:
    """A scripted model for the length of a `with` block; `script` is JSON text, or the lists and dicts it stands for."""

    def __init__(
        self, script: Any = (), *, listen: str = "127.0.0.1", port: int = 0, log: str | None = None,
        dump: str | None = None,
    ) -> None:  # fmt: skip
        self._plays = Plays(parse_script(list(script) if isinstance(script, tuple) else script))
        self._log = Log(log, dump)
        try:
            self._server = Server(listen, port, self._plays, self._log)
        except OSError as error:
            self._log.end()
            raise MngrError(
                f"cannot listen on {listen} port {port}: {error.strerror or error}",
                "take another address with --listen, or a free port with --port 0",
            ) from None
        self._listen = f"[{listen}]" if ":" in listen else listen
        self._thread = threading.Thread(target=self._server.serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and every answer that is under way."""
        if not self._server.ended.is_set():
            self._server.stop()
            if self._thread.is_alive():
                self._thread.join()
            self._server.end_connections()
            self._server.server_close()
        self._log.end()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def url(self, session: str | None = None) -> str:
        """Where a client finds it, alone or as one of several sessions."""
        base = f"http://{self._listen}:{self.port}"
        return base if session is None else f"{base}/s/{quote(session, safe='')}"

    def script(self, session: str, steps: Any, *, match: str = "tools") -> None:
        """Give a session other steps; with match `all` requests without tools use them up too."""
        self._plays.set(session, steps, match)

    def named(self, name: str, steps: Any) -> None:
        """Give the steps that `fake-script:NAME` in a prompt stands for."""
        self._plays.set_named(name, steps)

    def reset(self, session: str | None = None) -> None:
        """A session from its first step again, or everything, the log in memory too."""
        self._plays.reset(session)
        if session is None:
            self._log.clear()

    def log(self, session: str | None = None, since: int = 0) -> list[dict[str, Any]]:
        """What was sent and answered; a request that is not answered yet has the status None."""
        return self._log.rows(session, since)

    def asked(self, session: str) -> list[int]:
        """How often each step of a session was asked for."""
        return self._plays.asked(session)
