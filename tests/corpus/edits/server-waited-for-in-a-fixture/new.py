import socket
import subprocess
import time
import urllib.request

import pytest


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def server():
    proc = subprocess.Popen(["web", "--port", "8344"])
    try:
        deadline = time.monotonic() + 3
        while not answers(8344):
            if time.monotonic() > deadline:
                pytest.fail("the server does not answer")
            time.sleep(0.02)
        yield "http://127.0.0.1:8344"
    finally:
        proc.terminate()
        proc.wait(timeout=3)


def test_page_of_the_server(server):
    """The page says hello."""
    assert urllib.request.urlopen(server).read() == b"hello\n"
