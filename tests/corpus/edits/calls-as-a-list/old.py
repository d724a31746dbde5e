from unittest.mock import Mock, call

from bell import Bell


def test_rings():
    """It rings once for each visitor."""
    ring = Mock()
    bell = Bell(ring)
    bell.visit("ann")
    bell.visit("bob")
    assert ring.called
    assert ring.call_count == 2
