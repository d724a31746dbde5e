import sqlite3

import pytest

from shopdb.migrate import migrate


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table item (name text, cents integer)")
    connection.execute("insert into item values ('ink', 450)")
    migrate(connection)
    return connection


def test_prices(database):
    """Prices are in euros."""
    assert database.execute("select name, price from item").fetchall() == [("ink", 4.5)]
