import time

from dock import status


def test_crane_is_up():
    """The crane comes up."""
    time.sleep(3)
    assert status("crane") == "up"
