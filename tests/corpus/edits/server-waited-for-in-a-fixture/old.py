import subprocess
import time
import urllib.request

import pytest


@pytest.fixture
def server():
    proc = subprocess.Popen(["web", "--port", "8344"])
    time.sleep(3)
    yield "http://127.0.0.1:8344"
    proc.terminate()


def test_page_of_the_server(server):
    """The page says hello."""
    assert urllib.request.urlopen(server).read() == b"hello\n"
