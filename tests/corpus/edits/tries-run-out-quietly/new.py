import time

from dock import status


def test_crane_is_up():
    """The crane comes up."""
    tries = 30
    while status("crane") != "up" and tries:
        tries -= 1
        assert tries >= 0
        time.sleep(0.1)
