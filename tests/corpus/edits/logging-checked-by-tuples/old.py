import logging

from pump import Pump


def test_pump_warns(caplog):
    """A dry pump warns."""
    with caplog.at_level(logging.WARNING):
        Pump(water=0).run()
    assert "runs dry" in caplog.text
