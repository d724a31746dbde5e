from shop import price


CASES = [("rice", 3), ("jam", 4)]


def test_prices():
    """Prices."""
    for name, coins in CASES:
        assert price(name) == coins
