from functools import partial

from bank import Account


def check(account, amount):
    assert account.last == amount


def test_deposits():
    """A deposit is the last one."""
    account = Account()
    account.deposit(5)
    verify = partial(check, account, 5)
    assert verify
