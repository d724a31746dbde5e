import threading

from brook import flow


def test_flow_of_the_brook():
    """The flow is measured in litres."""
    assert flow("north") == 42
