import http.server
import subprocess
import threading

import pytest


class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"hello\n" if self.path == "/hello.txt" else b""
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    httpd = http.server.HTTPServer(("127.0.0.1", 0), Hello)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_fetch_saves_the_page(tmp_path, server):
    """`grab URL` saves the body to index.html and prints its size."""
    proc = subprocess.run(
        ["grab", f"{server}/hello.txt"],
        cwd=tmp_path, capture_output=True, text=True, timeout=30,
    )
    assert proc.returncode == 0
    assert proc.stdout == "saved 6 bytes\n"
    assert (tmp_path / "index.html").read_bytes() == b"hello\n"
