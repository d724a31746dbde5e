import subprocess
import time

from shop import load


def wait_until(ask, want, limit=10.0):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if ask() == want:
            break
        time.sleep(0.05)
    assert ask() == want


def test_ready():
    """It is ready in the end."""
    proc = subprocess.Popen(["shop", "serve"])
    wait_until(lambda: load("ready"), "yes")
    proc.kill()
