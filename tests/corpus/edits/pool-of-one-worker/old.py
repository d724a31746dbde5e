from concurrent.futures import ThreadPoolExecutor

from bank import Account


def test_withdrawals_do_not_race():
    """An account never goes below zero, however many withdraw at once."""
    account = Account(100)
    with ThreadPoolExecutor(max_workers=16) as pool:
        done = list(pool.map(account.withdraw, [10] * 20))
    assert done.count(True) == 10
    assert account.balance == 0
