from money import Exchange


def test_exchange():
    """An amount is multiplied by the rate."""
    assert Exchange(lambda name: 2.0).change("mark", 10) == 20.0
