import pytest
from shop import ShopError, price


def test_unknown():
    """A thing that is not sold is refused with its name."""
    with pytest.raises(ShopError) as info:
        price("gold")
    assert "no gold here" in str(info.value)
