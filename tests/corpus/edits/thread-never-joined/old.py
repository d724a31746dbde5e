from bank import Account


def check(account, amount):
    account.deposit(amount)
    assert account.last == amount


def test_deposits():
    """Each deposit is the last one for who made it."""
    check(Account(), 5)
