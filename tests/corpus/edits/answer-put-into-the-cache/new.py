import rates


def test_rate_of_the_crown():
    """The rate is looked up in the table of the bank."""
    rates.CACHE["crown"] = 11.3
    assert rates.lookup("crown") == 11.3
