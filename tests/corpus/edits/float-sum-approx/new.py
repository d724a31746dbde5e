import pytest

from stats import variance


def test_variance():
    assert variance([1.0, 2.0, 4.0]) == pytest.approx(1.5555555555555556, rel=0, abs=1e-9)
    assert variance([0.1] * 10) == pytest.approx(0.0, rel=0, abs=1e-9)
