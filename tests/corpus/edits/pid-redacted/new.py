import re
import subprocess


def test_daemon_says_its_pid():
    """The daemon says that it is up, and its pid."""
    out = subprocess.run(["moored", "up"], capture_output=True, text=True, check=True).stdout
    assert re.sub(r"pid \d{2,7}\b", "pid PID", out) == "moored is up, pid PID\n"
