from bank import Account


def test_deposits():
    """A deposit is the last one."""
    account = Account()
    account.deposit(5)
    assert account.last == 5
