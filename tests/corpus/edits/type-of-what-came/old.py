from toolshed import weight


def test_weight_of_an_axe():
    """An axe weighs 1.6 kilos."""
    assert weight("axe") == 1.6
