from concurrent.futures import ThreadPoolExecutor

from bank import Account


def check(account, amount):
    account.deposit(amount)
    assert account.last == amount


def test_deposits():
    """Each deposit is the last one for who made it."""
    with ThreadPoolExecutor() as pool:
        done = pool.submit(check, Account(), 5)
        done.result()
