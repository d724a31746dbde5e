import subprocess

from shop import load


def test_ready():
    """It is ready in the end."""
    proc = subprocess.Popen(["shop", "serve"])
    try:
        assert load("ready") == "yes"
    finally:
        proc.kill()
