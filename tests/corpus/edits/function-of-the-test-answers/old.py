from rates import lookup


def test_rate_of_the_pound():
    """The rate is looked up in the table of the bank."""
    assert lookup("pound") == 1.17
