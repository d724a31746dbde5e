import pytest

from feed import load


def test_load_of_yesterday():
    """A feed is read."""
    assert load("yesterday") == ["c"]
