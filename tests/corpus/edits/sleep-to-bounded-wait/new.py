import subprocess
import time


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s"
        time.sleep(0.05)


def test_watcher_picks_up_new_file(tmp_path):
    log = tmp_path / "log"
    proc = subprocess.Popen(["watchd", str(tmp_path), "--log", str(log)])
    try:
        (tmp_path / "new.txt").write_text("x")
        wait_for(lambda: log.exists() and "added new.txt" in log.read_text(), seconds=3)
    finally:
        proc.terminate()
        proc.wait()
