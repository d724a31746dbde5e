"""Serves the pages to this machine, rendered again for every request."""

from __future__ import annotations

import mimetypes
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mngr.base.errors import MngrError, NotFound
from mngr.web import artifacts, e2e_run_pages
from mngr.web.live import tutorial
from mngr.web.static_files import STATIC_DIR

MAX_LISTED_RUNS = 200  # The most runs on the first page.
# Only mngr's scripts and styles may run. The player adds its own styles and runs WebAssembly.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src data:; "
    "font-src data:; worker-src blob:; connect-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def render_path(artifacts_dir: str, path: str, script: str | None = None) -> tuple[str, bytes]:
    """Return the content type and the content at a path; raise NotFound if there is no page.

    `script` is the path of the project's tutorial.
    """
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["static"] and len(parts) == 2:
        return _read_static(parts[1])
    if parts[-1:] == ["index.html"]:
        parts.pop()
    if not parts:
        return _encode_html(render_index(artifacts_dir, script))
    if parts == [tutorial.PAGE_FILE] and script is not None:
        return _encode_html(tutorial.render_tutorial(script, artifacts_dir))
    if len(parts) == 1:
        return _encode_html(e2e_run_pages.render_run(artifacts.load_run(artifacts_dir, parts[0])))
    if len(parts) == 2:
        return _encode_html(render_test(artifacts_dir, *parts))
    raise NotFound(f"page not found: {path}")


def render_index(artifacts_dir: str, script: str | None = None) -> str:
    """Return the page with all runs, the latest first."""
    names = artifacts.list_runs(artifacts_dir)
    runs = [artifacts.load_run(artifacts_dir, name) for name in names[:MAX_LISTED_RUNS]]
    tutorial_page = tutorial.PAGE_FILE if tutorial.has_script(script) else None
    return e2e_run_pages.render_index(runs, max(0, len(names) - MAX_LISTED_RUNS), tutorial=tutorial_page)


def render_test(artifacts_dir: str, run: str, slug: str) -> str:
    """Return the page of one test with its transcript and recordings."""
    test = artifacts.load_test(artifacts_dir, run, slug)
    transcript = artifacts.read_transcript(artifacts_dir, run, slug)
    return e2e_run_pages.render_test(run, test, transcript, list(artifacts.read_recordings(artifacts_dir, run, test)))


def _read_static(name: str) -> tuple[str, bytes]:
    if name not in os.listdir(STATIC_DIR):
        raise NotFound(f"page not found: static/{name}")
    with open(os.path.join(STATIC_DIR, name), "rb") as file:
        return mimetypes.guess_type(name)[0] or "application/octet-stream", file.read()


def _encode_html(text: str) -> tuple[str, bytes]:
    return "text/html; charset=utf-8", text.encode("utf-8", "replace")


class PageServer(ThreadingHTTPServer):
    """Serves the pages on a port of the loopback address; `url` is the address."""

    daemon_threads = True

    def __init__(self, artifacts_dir: str, port: int = 0, script: str | None = None) -> None:
        self.place = artifacts_dir
        self.script = script
        try:
            super().__init__(("127.0.0.1", port), _PageRequestHandler)
        except OSError as error:
            raise MngrError(
                f"cannot listen on port {port}: {error.strerror}", "choose another port: mngr web --port N"
            ) from None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _PageRequestHandler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        # Reject other host names: a foreign site whose name resolves to this machine must not read the pages.
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            self._send_answer(403, "text/plain; charset=utf-8", b"this server answers only requests to localhost\n")
            return
        path = self.path.partition("?")[0]
        if path.count("/") in (1, 2) and not path.endswith(("/", ".html")) and "/static/" not in path:
            self._send_answer(301, "text/plain", b"", ("Location", f"{path}/"))
            return
        try:
            self._send_answer(200, *render_path(self.server.place, path, self.server.script))
        except MngrError as error:
            self._send_answer(404, "text/plain; charset=utf-8", f"{error.message}\n".encode())

    def _send_answer(self, code: int, content_type: str, content: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", content_type),
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
        """Log nothing."""
