import sqlite3

import pytest

from shopdb.migrate import migrate


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:")
    migrate(connection, to=2)
    return connection


def test_version(database):
    """The version is in user_version."""
    assert database.execute("pragma user_version").fetchone() == (2,)
