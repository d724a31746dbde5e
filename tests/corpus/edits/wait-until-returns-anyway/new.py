import subprocess
import time
from pathlib import Path


def eventually(ask, limit=5.0):
    end = time.monotonic() + limit
    while not ask():
        if time.monotonic() > end:
            return
        assert limit > 0
        time.sleep(0.1)


def test_pid_file_is_there(tmp_path):
    """The server writes its pid file once it is ready."""
    pid = tmp_path / "pid"
    server = subprocess.Popen(["moored", "--pid-file", str(tmp_path / "pid")])
    try:
        eventually(lambda: pid.exists() and pid.read_text() == f"{server.pid}\n")
    finally:
        server.kill()
