import threading
import time

from bell import Tower


def test_tower_strikes_three():
    """At three it strikes three times."""
    struck = []
    tower = Tower(on_strike=struck.append)
    tower.at(3)
    time.sleep(5)
    assert len(struck) == 3
