from roman import numeral


class TestNumerals:
    def test_four(self):
        """Four is one before five."""
        assert numeral(4) == "IV"

    def test_six(self):
        """Six is one after five."""
        assert numeral(6) == "VI"
