import pytest

from cart import Cart, OutOfStock


@pytest.fixture
def c():
    return Cart(stock={"apple": 2})


def test_1(c):
    c.add("apple")
    c.add("apple")
    with pytest.raises(OutOfStock, match="apple"):
        c.add("apple")
    x = c.items
    assert x == {"apple": 2}
