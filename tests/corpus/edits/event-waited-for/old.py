import time

from bell import Bell


def test_bell_rings():
    """Listeners are called when the bell rings."""
    heard = []
    bell = Bell(on_ring=lambda tone: heard.append(tone))
    bell.ring("c")
    time.sleep(2)
    assert heard == ["c"]
