import sqlite3

import pytest

from kvlite import Store


@pytest.fixture
def store():
    connection = sqlite3.connect(":memory:")
    yield Store(connection)
    connection.close()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("plain", "text", id="plain"),
        pytest.param("it's", 'say "hi"', id="quotes"),
        pytest.param("snow", "\u2603", id="unicode"),
        pytest.param("nul", "a\x00b", id="null-byte"),
        pytest.param("", "empty key", id="empty-key"),
    ],
)
def test_round_trip(store, key, value):
    """Whatever is put in comes out the same."""
    store.put(key, value)
    assert store.get(key) == value
    assert list(store) == [key]
