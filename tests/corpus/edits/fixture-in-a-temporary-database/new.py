import sqlite3

import pytest

from shopdb.migrate import migrate


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        migrate(connection, to=2)
        yield connection


def test_version(database):
    """The version is in user_version."""
    assert database.execute("pragma user_version").fetchone() == (2,)
