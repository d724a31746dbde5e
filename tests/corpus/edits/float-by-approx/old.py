import pytest

from cart import Cart


def test_sum_of_prices():
    """The sum of 0.1 and 0.2 is 0.3."""
    cart = Cart([0.1, 0.2])
    assert cart.total() == 0.3
    with pytest.raises(ValueError):
        Cart([-1])
