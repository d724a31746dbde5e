import subprocess
import urllib.request


def test_front_page():
    """The front page says hello."""
    server = subprocess.Popen(["web", "--port", "8123", "--wait"])
    try:
        page = urllib.request.urlopen("http://127.0.0.1:8123/").read()
        assert page == b"hello\n"
    finally:
        server.kill()
