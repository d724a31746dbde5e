import subprocess
import time


def test_report_is_complete(tmp_path):
    """The report ends with its total."""
    job = subprocess.Popen(["census", "--out", str(tmp_path / "report")])
    end = time.monotonic() + 3
    while not (tmp_path / "report").exists():
        assert time.monotonic() < end
        time.sleep(0.1)
    job.wait()
