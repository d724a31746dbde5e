import subprocess
import time


def test_report_is_complete(tmp_path):
    """The report ends with its total."""
    job = subprocess.Popen(["census", "--out", str(tmp_path / "report")])
    time.sleep(3)
    assert (tmp_path / "report").read_text() == "a 1\nb 2\ntotal 3\n"
    job.wait()
