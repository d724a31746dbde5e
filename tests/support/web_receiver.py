"""A real web server on this machine that records what it receives, and can fail or hang."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    at: float
    path: str
    headers: dict[str, str]
    body: bytes

    def parse_json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class WebReceiver:
    """The server. `answer` returns the HTTP status of a request, or None to hang."""

    def __init__(self, certificate: Path | None = None) -> None:
        """With a certificate and its key in one file, the server uses TLS."""
        self.requests: list[Received] = []
        self.answer: Callable[[Received], int | None] = lambda request: 200
        self._ended = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                request = Received(time.time(), self.path, dict(self.headers.items()), body)
                receiver.requests.append(request)
                code = receiver.answer(request)
                if code is None:
                    receiver._drip(self)
                    return
                self.send_response(code)
                self.send_header("Location", f"{receiver.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._scheme = "http" if certificate is None else "https"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def list_json(self) -> list[dict[str, Any]]:
        """Return the bodies so far."""
        return [request.parse_json() for request in list(self.requests)]

    def _drip(self, handler: BaseHTTPRequestHandler) -> None:
        """Send one byte of an answer now and then, so that no single read takes long."""
        for byte in b"HTTP/1.1 200 " + b"x" * 10_000:
            if self._ended.wait(0.2):
                return
            try:
                handler.wfile.write(bytes([byte]))
            except OSError:
                return

    def close(self) -> None:
        """End the server."""
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
