import pytest

from kvstore import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "kv")


def test_empty(store):
    """A new store has nothing."""
    assert len(store) == 0


def test_put(store):
    """One thing after one put."""
    store["a"] = "1"
    assert len(store) == 1
