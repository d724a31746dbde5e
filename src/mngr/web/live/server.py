"""Serves the pages to this machine, made anew for every request."""

from __future__ import annotations

import mimetypes
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mngr.base.errors import MngrError, NotFound
from mngr.web import artifacts, pages, terminal_player
from mngr.web.live import tutorial

MAX_LISTED_RUNS = 200  # runs on the first page
# Scripts and styles of ours only; the player draws with styles of its own and runs WebAssembly.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "font-src data:; worker-src blob:; connect-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def render_path(place: str, path: str, script: str | None = None) -> tuple[str, bytes]:
    """(type, content) of what is at a path; NotFound. `script` is the project's tutorial."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["static"] and len(parts) == 2:
        return _read_static(parts[1])
    if parts[-1:] == ["index.html"]:
        parts.pop()
    if not parts:
        return _encode_html(render_index(place, script))
    if parts == [tutorial.PAGE_FILE] and script is not None:
        return _encode_html(tutorial.render_tutorial(script, place))
    if len(parts) == 1:
        return _encode_html(pages.render_run(artifacts.load_run(place, parts[0])))
    if len(parts) == 2:
        return _encode_html(render_test(place, *parts))
    raise NotFound(f"there is no page {path}")


def render_index(place: str, script: str | None = None) -> str:
    """All runs, the latest first."""
    names = artifacts.list_runs(place)
    shown = [artifacts.load_run(place, name) for name in names[:MAX_LISTED_RUNS]]
    way = tutorial.PAGE_FILE if tutorial.has_script(script) else None
    return pages.render_index(shown, max(0, len(names) - MAX_LISTED_RUNS), tutorial=way)


def render_test(place: str, run: str, slug: str) -> str:
    """One test with everything of it."""
    test = artifacts.load_test(place, run, slug)
    transcript = artifacts.read_transcript(place, run, slug)
    return pages.render_test(run, test, transcript, list(artifacts.read_recordings(place, run, test)))


def _read_static(name: str) -> tuple[str, bytes]:
    if name not in os.listdir(terminal_player.STATIC_DIR):
        raise NotFound(f"there is no page static/{name}")
    with open(os.path.join(terminal_player.STATIC_DIR, name), "rb") as file:
        return mimetypes.guess_type(name)[0] or "application/octet-stream", file.read()


def _encode_html(text: str) -> tuple[str, bytes]:
    return "text/html; charset=utf-8", text.encode("utf-8", "replace")


class PageServer(ThreadingHTTPServer):
    """On a port of the loopback address; `url` says where."""

    daemon_threads = True

    def __init__(self, place: str, port: int = 0, script: str | None = None) -> None:
        self.place = place
        self.script = script
        try:
            super().__init__(("127.0.0.1", port), _PageRequestHandler)
        except OSError as error:
            raise MngrError(f"cannot listen on port {port}: {error.strerror}", "choose another: --port N") from None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _PageRequestHandler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        # Only who asks for this machine by name: a page elsewhere whose name points here must not read it.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self._send_answer(403, "text/plain; charset=utf-8", b"not for this host\n")
            return
        path = self.path.partition("?")[0]
        if path.count("/") in (1, 2) and not path.endswith(("/", ".html")) and "/static/" not in path:
            self._send_answer(301, "text/plain", b"", ("Location", f"{path}/"))
            return
        try:
            self._send_answer(200, *render_path(self.server.place, path, self.server.script))
        except MngrError as error:
            self._send_answer(404, "text/plain; charset=utf-8", f"{error.message}\n".encode())

    def _send_answer(self, code: int, kind: str, content: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
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
