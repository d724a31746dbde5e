import threading

from bell import Bell


def test_bell_rings():
    """Listeners are called when the bell rings."""
    heard = []
    rung = threading.Event()

    def listen(tone):
        heard.append(tone)
        rung.set()

    bell = Bell(on_ring=listen)
    bell.ring("c")
    assert rung.wait(timeout=2)
    assert heard == ["c"]
