import subprocess
import time


def wait_for(path, seconds=3.0):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.05)


def test_daemon_writes_its_pid(tmp_path):
    """The daemon writes its own pid to a file."""
    daemon = subprocess.Popen(["ticker", "--pid-file", str(tmp_path / "pid")])
    try:
        wait_for(tmp_path / "pid")
        assert (tmp_path / "pid").read_text() == f"{daemon.pid}\n"
    finally:
        daemon.terminate()
        daemon.wait()
