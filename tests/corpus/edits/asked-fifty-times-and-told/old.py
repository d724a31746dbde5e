import time

from harbour import ships


def test_ship_comes_in():
    """The ship comes in."""
    time.sleep(5)
    assert ships() == ["petrel"]
