import time

from harbour import berth, ships


def until(condition, seconds=4.0, step=0.05):
    end = time.monotonic() + seconds
    for _ in range(int(seconds / step) + 1):
        if condition():
            return
        time.sleep(step)
    raise TimeoutError(f"still not so at {end}")


def test_ship_arrives():
    """A ship that was sent arrives."""
    berth("tern")

    def arrived():
        return "tern" in ships()

    until(arrived)
