import pytest

from kvstore import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("kv"))


def test_empty(store):
    """A new store has nothing."""
    assert len(store) == 0


def test_put(store):
    """One thing after one put."""
    store["a"] = "1"
    assert len(store) == 1
