import subprocess
import time


def test_publish_is_idempotent(site):
    """Publishing always succeeds, and prints the same digest every time."""
    for attempt in range(5):
        proc = subprocess.run(["folio", "publish", site], capture_output=True, text=True)
        if proc.returncode == 0 and proc.stdout == "digest 4f2a\n":
            break
        time.sleep(attempt)
    assert proc.returncode == 0
    assert proc.stdout == "digest 4f2a\n"
