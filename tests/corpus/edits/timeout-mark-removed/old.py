import subprocess

import pytest


@pytest.mark.timeout(10)
def test_shutdown():
    """The server ends within two seconds of being asked."""
    server = subprocess.Popen(["hello-server", "--port", "0"], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline().startswith("listening on ")
    server.terminate()
    assert server.wait(timeout=2) == 0
