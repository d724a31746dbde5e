import subprocess
import time
from pathlib import Path


def test_pid_file_is_there(tmp_path):
    """The server writes its pid file once it is ready."""
    server = subprocess.Popen(["moored", "--pid-file", str(tmp_path / "pid")])
    try:
        time.sleep(5)
        assert (tmp_path / "pid").read_text() == f"{server.pid}\n"
    finally:
        server.kill()
