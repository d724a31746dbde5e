import http.server
import json
import threading

import pytest

from weather import report


class Station(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"temp": 21}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def station():
    server = http.server.HTTPServer(("127.0.0.1", 0), Station)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


def test_report(station):
    """The report has the temperature."""
    assert report(station) == "21 degrees"
