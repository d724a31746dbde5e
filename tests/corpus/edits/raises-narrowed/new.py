import pytest

from bank import Account


def test_no_overdraft():
    """More than there is cannot be taken: ValueError, and the balance stays."""
    account = Account(10)
    with pytest.raises(ValueError, match="only 10 there"):
        account.take(11)
    assert account.balance == 10
