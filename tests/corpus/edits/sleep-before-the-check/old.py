import subprocess
import time


def test_publish_is_done_when_it_returns(tmp_path):
    """When `publish` returns the page is there."""
    started = time.time()
    subprocess.run(["site", "publish", "--to", str(tmp_path)], check=True)
    page = tmp_path / "index.html"
    assert page.exists()
    assert page.stat().st_mtime >= int(started)
