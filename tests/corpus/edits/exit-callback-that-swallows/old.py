import contextlib

from pump import Pump


def test_pump_stops():
    """A pump that was stopped gives nothing."""
    with contextlib.ExitStack() as stack:
        pump = stack.enter_context(Pump())
        pump.stop()
        assert pump.output() == 0
