import time

from harbour import berth, ships


def test_ship_arrives():
    """A ship that was sent arrives."""
    berth("tern")
    time.sleep(4)
    assert "tern" in ships()
