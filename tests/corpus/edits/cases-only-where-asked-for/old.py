import pytest

from coin import change

CASES = [(30, [20, 10]), (75, [50, 20, 5]), (4, [2, 2])]


@pytest.mark.parametrize(("sum_", "coins"), CASES)
def test_change(sum_, coins):
    """The fewest coins are given."""
    assert change(sum_) == coins
