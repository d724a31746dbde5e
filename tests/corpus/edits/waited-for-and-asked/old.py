import time

from harbour import berth, ships


def test_ship_is_in():
    """A ship that was sent arrives."""
    berth("auk")
    time.sleep(4)
    assert "auk" in ships()
