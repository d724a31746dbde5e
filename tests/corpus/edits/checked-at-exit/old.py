import atexit

from brook import flow


def test_flow_of_the_river():
    """The flow is measured in litres."""
    assert flow("south") == 7
