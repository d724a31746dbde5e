from rates import lookup


def test_rate_of_the_mark():
    """The rate is looked up in the table of the bank."""
    assert lookup("mark", source=lambda name: 1.96) == 1.96
