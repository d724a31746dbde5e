import pytest

from physics import fall


def test_fall():
    """After two seconds a stone has fallen 19.62 m."""
    assert fall(2) == pytest.approx(19.62, abs=0.01)


def test_no_time():
    """In no time nothing falls."""
    assert fall(0) == 0
