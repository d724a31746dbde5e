import threading

from bell import Tower


def test_tower_strikes_three():
    """At three it strikes three times."""
    struck = []
    ready = threading.Condition()

    def strike(tone):
        with ready:
            struck.append(tone)
            ready.notify()

    tower = Tower(on_strike=strike)
    tower.at(3)
    with ready:
        assert ready.wait_for(lambda: len(struck) >= 3, timeout=5)
    assert len(struck) == 3
