import subprocess
import time


def test_watcher_picks_up_new_file(tmp_path):
    proc = subprocess.Popen(["watchd", str(tmp_path), "--log", str(tmp_path / "log")])
    try:
        (tmp_path / "new.txt").write_text("x")
        time.sleep(3)
        assert "added new.txt" in (tmp_path / "log").read_text()
    finally:
        proc.terminate()
        proc.wait()
