"""Serves the pages to this machine, made anew for every request."""

from __future__ import annotations

import mimetypes
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mngr.base.errors import MngrError, NotFound
from mngr.web import artifacts, pages, player
from mngr.web.live import tutorial

SHOWN = 200  # runs on the first page
# Scripts and styles of ours only; the player draws with styles of its own and runs WebAssembly.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "font-src data:; worker-src blob:; connect-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def page(place: str, path: str, script: str | None = None) -> tuple[str, bytes]:
    """(type, content) of what is at a path; NotFound. `script` is the project's tutorial."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["static"] and len(parts) == 2:
        return _static(parts[1])
    if parts[-1:] == ["index.html"]:
        parts.pop()
    if not parts:
        return _html(index(place, script))
    if parts == [tutorial.FILE] and script is not None:
        return _html(tutorial.page(script, place))
    if len(parts) == 1:
        return _html(pages.run_page(artifacts.load_run(place, parts[0])))
    if len(parts) == 2:
        return _html(test_page(place, *parts))
    raise NotFound(f"there is no page {path}")


def index(place: str, script: str | None = None) -> str:
    """All runs, the latest first."""
    names = artifacts.list_runs(place)
    shown = [artifacts.load_run(place, name) for name in names[:SHOWN]]
    way = tutorial.FILE if tutorial.exists(script) else None
    return pages.index(shown, max(0, len(names) - SHOWN), tutorial=way)


def test_page(place: str, run: str, slug: str) -> str:
    """One test with everything of it."""
    test = artifacts.load_test(place, run, slug)
    transcript = artifacts.read_transcript(place, run, slug)
    return pages.test_page(run, test, transcript, list(artifacts.read_recordings(place, run, test)))


def _static(name: str) -> tuple[str, bytes]:
    if name not in os.listdir(player.STATIC):
        raise NotFound(f"there is no page static/{name}")
    with open(os.path.join(player.STATIC, name), "rb") as file:
        return mimetypes.guess_type(name)[0] or "application/octet-stream", file.read()


def _html(text: str) -> tuple[str, bytes]:
    return "text/html; charset=utf-8", text.encode("utf-8", "replace")


class Server(ThreadingHTTPServer):
    """On a port of the loopback address; `url` says where."""

    daemon_threads = True

    def __init__(self, place: str, port: int = 0, script: str | None = None) -> None:
        self.place = place
        self.script = script
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise MngrError(
                f"cannot listen on port {port}: {error.strerror}", "choose another: --port N"
            ) from None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        # Only who asks for this machine by name: a page elsewhere whose name points here must not read it.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self._answer(403, "text/plain; charset=utf-8", b"not for this host\n")
            return
        path = self.path.partition("?")[0]
        if path.count("/") in (1, 2) and not path.endswith(("/", ".html")) and "/static/" not in path:
            self._answer(301, "text/plain", b"", ("Location", f"{path}/"))
            return
        try:
            self._answer(200, *page(self.server.place, path, self.server.script))
        except MngrError as error:
            self._answer(404, "text/plain; charset=utf-8", f"{error.message}\n".encode())

    def _answer(self, code: int, kind: str, content: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cache-Control", "no-store"),
            *headers,
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody needs to know."""
