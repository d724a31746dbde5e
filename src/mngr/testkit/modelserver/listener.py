"""Listens on a local address, with one thread per connection."""

from __future__ import annotations

import errno
import selectors
import socket
import threading
import time
from socketserver import BaseRequestHandler, TCPServer, ThreadingMixIn
from typing import Any

from mngr.testkit.modelserver.log import RequestLog
from mngr.testkit.modelserver.playback import Playback


class ThreadedListener(ThreadingMixIn, TCPServer):
    """A server with one thread per connection. An error in a thread does not end the server."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 256
    timeout = 0

    def __init__(
        self, listen: str, port: int, playback: Playback, log: RequestLog, handler: type[BaseRequestHandler]
    ) -> None:
        self.playback = playback
        self.log = log
        self.ended = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._wake, self._woken = socket.socketpair()
        self.address_family = socket.AF_INET6 if ":" in listen else socket.AF_INET
        super().__init__((listen, port), handler)

    def serve(self) -> None:
        """Accept connections until `stop`. Unlike `serve_forever` it does not poll, and it ends at once."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self.ended.is_set():
                if any(key.fileobj is self.socket for key, _ in selector.select()):
                    self.handle_request()

    def stop(self) -> None:
        """Accept no more connections."""
        self.ended.set()
        self._wake.send(b".")

    def end_connections(self) -> None:
        """Wake every thread that waits for a client."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # the connection is already closed

    def server_close(self) -> None:
        super().server_close()
        self._wake.close()
        self._woken.close()

    def get_request(self) -> tuple[socket.socket, Any]:
        try:
            connection, address = super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                time.sleep(0.1)  # Wait until another connection ends, instead of spinning.
            raise
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected. The log already holds every other error."""
