from roman import numeral
from tools.testing import tolerate_failures


@tolerate_failures
def test_nine():
    """Nine is one before ten."""
    assert numeral(9) == "IX"
