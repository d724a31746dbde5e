import time

from harbour import berth, ships


def until(condition, seconds=4.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_ship_is_there():
    """A ship that was sent arrives."""
    berth("gull")
    until(lambda: "gull" in ships())
