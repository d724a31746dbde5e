import subprocess
import time

import pytest


def test_queue_gets_empty():
    """A worker takes what is in the queue."""
    subprocess.run(["queue", "push", "job-1"], check=True)
    worker = subprocess.Popen(["queue", "work"])
    time.sleep(10)
    worker.terminate()
    assert subprocess.run(["queue", "length"], capture_output=True, text=True).stdout == "0\n"
