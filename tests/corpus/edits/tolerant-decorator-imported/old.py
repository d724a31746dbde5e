from roman import numeral


def test_nine():
    """Nine is one before ten."""
    assert numeral(9) == "IX"
