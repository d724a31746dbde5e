import subprocess

from shop import load


import contextlib


@contextlib.contextmanager
def serving():
    proc = subprocess.Popen(["shop", "serve"])
    try:
        yield proc
    finally:
        proc.kill()


def test_ready():
    """It is ready in the end."""
    with serving():
        assert load("ready") == "yes"
