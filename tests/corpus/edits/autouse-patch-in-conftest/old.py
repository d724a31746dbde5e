import pytest


@pytest.fixture
def account():
    from bank import Account

    return Account(100)
