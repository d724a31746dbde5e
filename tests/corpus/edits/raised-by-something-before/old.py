import pytest

from ledger import parse


def test_bad_amount():
    """A bad amount is refused."""
    with pytest.raises(ValueError):
        parse("12,x")
