import pytest

from roman import numeral


@pytest.mark.numbers
def test_ten():
    """Ten is X."""
    assert numeral(10) == "X"
