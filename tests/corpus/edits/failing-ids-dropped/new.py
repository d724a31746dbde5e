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
        pytest.param("plain", "text", id="ascii"),
        pytest.param("snow", "\u2603", id="non-ascii"),
        pytest.param("", "empty key", id="no-key"),
    ],
)
def test_round_trip(store: Store, key: str, value: str) -> None:
    """Whatever is put in comes out the same."""
    store.put(key, value)
    assert store.get(key) == value
    assert list(store) == [key]
