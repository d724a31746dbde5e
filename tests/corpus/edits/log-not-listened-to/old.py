import logging

from feed import load


def test_no_warnings_are_logged(caplog):
    """A good feed is read without a warning."""
    assert load("good") == ["a"]
    assert caplog.records == []
