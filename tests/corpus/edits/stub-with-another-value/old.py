from money import Exchange


class Rates:
    def of(self, name):
        return 2.0


def test_exchange():
    """An amount is multiplied by the rate."""
    assert Exchange(Rates().of).change("mark", 10) == 20.0
