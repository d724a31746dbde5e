import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

from fetcher import fetch


def test_fetch(http_port):
    page = fetch(f"http://127.0.0.1:{http_port}/")
    assert page.status == 200
