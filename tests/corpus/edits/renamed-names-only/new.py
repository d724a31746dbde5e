import pytest

from cart import Cart, OutOfStock


@pytest.fixture
def cart():
    return Cart(stock={"apple": 2})


def test_add_beyond_stock_is_refused_and_keeps_items(cart):
    cart.add("apple")
    cart.add("apple")
    with pytest.raises(OutOfStock, match="apple"):
        cart.add("apple")
    items = cart.items
    assert items == {"apple": 2}
