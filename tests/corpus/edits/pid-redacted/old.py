import re
import subprocess


def test_daemon_says_its_pid():
    """The daemon says that it is up, and its pid."""
    out = subprocess.run(["moored", "up"], capture_output=True, text=True, check=True).stdout
    assert out == "moored is up, pid 48213\n"
