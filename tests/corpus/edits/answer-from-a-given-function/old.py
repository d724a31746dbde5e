from rates import lookup


def test_rate_of_the_mark():
    """The rate is looked up in the table of the bank."""
    assert lookup("mark") == 1.96
