from currency import Rates


def test_conversion():
    """Amounts are converted with the rate of the day, to two places."""
    rates = Rates({"USD": 1.25})
    assert rates.convert(10, "EUR", "USD") == 12.5
    assert rates.convert(0.333, "EUR", "USD") == 0.42


def test_same_currency():
    """Nothing changes within a currency."""
    assert Rates({}).convert(10, "EUR", "EUR") == 10
