import time

from harbour import berth, ships


def test_ship_is_there():
    """A ship that was sent arrives."""
    berth("gull")
    time.sleep(4)
    assert "gull" in ships()
