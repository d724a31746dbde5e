import pytest

from ledger import parse


def test_bad_amount():
    """A bad amount is refused."""
    with pytest.raises(ValueError):
        amount = float("12,x")
        parse(amount)
