import pytest
from shop import ShopError, price


def test_unknown():
    """A thing that is not sold is refused with its name."""
    with pytest.raises(ShopError, match="no gold here"):
        price("gold")
