import subprocess
import time

import pytest


def test_queue_is_emptied():
    """A worker takes what is in the queue."""
    subprocess.run(["queue", "push", "job-1"], check=True)
    worker = subprocess.Popen(["queue", "work"])
    try:
        for _ in range(50):
            if subprocess.run(["queue", "length"], capture_output=True, text=True).stdout == "0\n":
                break
            time.sleep(0.2)
        else:
            pytest.fail("the queue was not emptied")
    finally:
        worker.terminate()
