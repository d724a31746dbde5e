import threading
from http.server import HTTPServer, SimpleHTTPRequestHandler

from fetcher import fetch


def test_fetch():
    server = HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    page = fetch(f"http://127.0.0.1:{server.server_port}/")
    assert page.status == 200
    server.shutdown()
    thread.join()
