import sqlite3

import pytest


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:")
    connection.execute("create table item (name text, price real)")
    connection.execute("insert into item values ('pen', 1.2), ('ink', 4.5)")
    connection.execute("pragma user_version = 2")
    yield connection
    connection.close()


def test_prices_become_decimal(database):
    """Version 2 has prices in euros."""
    rows = database.execute("select name, price from item order by name").fetchall()
    assert rows == [("ink", 4.5), ("pen", 1.2)]


def test_version_is_kept(database):
    """The version is in user_version."""
    assert database.execute("pragma user_version").fetchone() == (2,)
