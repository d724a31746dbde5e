import threading

from bank import Account


def check(account, amount):
    account.deposit(amount)
    assert account.last == amount


def test_deposits():
    """Each deposit is the last one for who made it."""
    thread = threading.Thread(target=check, args=(Account(), 5))
    thread.start()
    thread.join()
