from money import Money


def test_addition():
    """Amounts of one currency are added."""
    total = Money(2, "EUR") + Money(3, "EUR")
    assert total == Money(5, "EUR")


def test_other_currency():
    """Amounts of two currencies are not equal."""
    assert Money(2, "EUR") != Money(2, "USD")
