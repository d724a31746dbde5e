import subprocess
import time

from shop import load


def test_ready():
    """It is ready in the end."""
    proc = subprocess.Popen(["shop", "serve"])
    time.sleep(5)
    assert load("ready") == "yes"
    proc.kill()
