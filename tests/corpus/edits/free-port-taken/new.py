import socket
import subprocess
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_front_page():
    """The front page says hello."""
    port = free_port()
    server = subprocess.Popen(["web", "--port", str(port), "--wait"])
    try:
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/").read()
        assert page == b"hello\n"
    finally:
        server.kill()
