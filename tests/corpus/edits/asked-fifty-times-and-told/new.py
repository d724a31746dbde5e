import time

from harbour import ships


def came():
    for _ in range(50):
        if ships() == ["petrel"]:
            return True
        time.sleep(0.1)
    return False


def test_ship_comes_in():
    """The ship comes in."""
    assert came()
