import atexit

from brook import flow


def look():
    assert flow("south") == 7


def test_flow_of_the_river():
    """The flow is measured in litres."""
    atexit.register(look)
