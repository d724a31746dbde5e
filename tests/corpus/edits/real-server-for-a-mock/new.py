import http.server
import threading

import pytest

from fetch import title_of


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<title>Hi</title>")


@pytest.fixture
def address():
    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_title(address):
    """The title of a page."""
    assert title_of(address) == "Hi"
