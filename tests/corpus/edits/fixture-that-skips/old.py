import subprocess

import pytest


@pytest.fixture
def server():
    proc = subprocess.run(["dock", "start"], capture_output=True, text=True)
    assert proc.returncode == 0
    return proc.stdout.strip()


def test_server_has_a_name(server):
    """A server that was started has a name."""
    assert server == "dock-1"
