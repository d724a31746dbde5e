from toolshed import weight


def test_weight_of_an_axe():
    """An axe weighs 1.6 kilos."""
    assert isinstance(weight("axe"), (int, float))
