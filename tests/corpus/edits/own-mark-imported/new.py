from roman import numeral
from tests.marks import numbers


@numbers
def test_ten():
    """Ten is X."""
    assert numeral(10) == "X"
