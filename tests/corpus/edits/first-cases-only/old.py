import itertools

import pytest

from roman import numeral

CASES = [(1, "I"), (4, "IV"), (9, "IX"), (1994, "MCMXCIV")]


@pytest.mark.parametrize(("number", "want"), CASES)
def test_numeral(number, want):
    """Numbers are written as the Romans did."""
    assert numeral(number) == want
