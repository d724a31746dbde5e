from concurrent.futures import ThreadPoolExecutor

from bank import Account


def check(account, amount):
    account.deposit(amount)
    assert account.last == amount


def test_deposits():
    """A deposit is the last one."""
    account = Account()
    with ThreadPoolExecutor() as pool:
        pool.map(check, [account], [5])
