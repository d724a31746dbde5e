import time

from shop import load


def wait_for(condition, limit=10.0):
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end, "too late"
        time.sleep(0.05)


def test_ready():
    """It is ready in the end."""
    wait_for(lambda: load("ready") == "yes")
    assert load("ready") == "yes"
