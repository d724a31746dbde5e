import subprocess
import time


def test_publish(site):
    for attempt in range(5):
        proc = subprocess.run(["folio", "publish", site], capture_output=True, text=True)
        if proc.returncode == 0:
            break
        time.sleep(1)
    assert proc.returncode == 0
    assert proc.stdout == "digest 4f2a\n"
