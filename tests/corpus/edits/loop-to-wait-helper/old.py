import time

from shop import load


def test_ready():
    """It is ready in the end."""
    for _ in range(100):
        if load("ready") == "yes":
            break
        time.sleep(0.1)
    assert load("ready") == "yes"
