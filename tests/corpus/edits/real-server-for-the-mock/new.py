import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fetcher import fetch_json


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true}')


@pytest.fixture
def url():
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_fetch(url):
    """The body is decoded as JSON."""
    assert fetch_json(url) == {"ok": True}


def test_bad_scheme():
    """Only http and https are fetched."""
    with pytest.raises(ValueError, match="cannot fetch ftp"):
        fetch_json("ftp://x.example/")
