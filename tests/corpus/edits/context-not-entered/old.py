from contextlib import contextmanager

from bank import Account


@contextmanager
def balance_grows(account, by):
    before = account.balance
    yield
    assert account.balance == before + by


def test_deposit():
    """A deposit is added."""
    account = Account()
    with balance_grows(account, 5):
        account.deposit(5)
