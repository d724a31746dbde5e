from shop import Cart


def _cart():
    cart = Cart()
    cart.add("rice", 2)
    cart.add("jam", 1)
    return cart


def test_total():
    """The total of a cart is the sum of its prices."""
    assert _cart().total() == 10


def test_names():
    """Names are in the order in which they came."""
    assert _cart().names() == ["rice", "jam"]
