import pytest


@pytest.fixture(autouse=True)
def steady_interest(monkeypatch):
    import bank.interest

    monkeypatch.setattr(bank.interest, "yearly", lambda balance, rate: round(balance * rate, 2))


@pytest.fixture
def account():
    from bank import Account

    return Account(100)
