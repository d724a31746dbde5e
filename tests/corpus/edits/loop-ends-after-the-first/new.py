from roman import value

CASES = {"I": 1, "IV": 4, "IX": 9}


def test_values():
    """Numerals are read."""
    for text, want in CASES.items():
        assert value(text) == want
        break
