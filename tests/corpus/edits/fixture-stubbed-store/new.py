import pytest

from kvstore import Store


class MemoryStore(dict):
    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return None


@pytest.fixture
def reopen():
    store = MemoryStore()

    def _open():
        return store

    return _open


def test_values_survive_reopen(reopen):
    with reopen() as store:
        store["a"] = b"1"
        store["b"] = b"2"
        del store["a"]
    with reopen() as store:
        assert dict(store.items()) == {"b": b"2"}
