import logging

from pump import Pump


def test_pump_warns(caplog):
    """A dry pump warns."""
    with caplog.at_level(logging.WARNING, logger="pump"):
        Pump(water=0).run()
    assert caplog.record_tuples == [("pump", logging.WARNING, "the pump runs dry")]
