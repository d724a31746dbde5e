import subprocess
import time


def test_daemon_writes_its_pid(tmp_path):
    """The daemon writes its own pid to a file."""
    daemon = subprocess.Popen(["ticker", "--pid-file", str(tmp_path / "pid")])
    try:
        time.sleep(3)
        assert (tmp_path / "pid").read_text() == f"{daemon.pid}\n"
    finally:
        daemon.terminate()
        daemon.wait()
