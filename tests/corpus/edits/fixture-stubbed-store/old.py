import pytest

from kvstore import Store


@pytest.fixture
def reopen(tmp_path):
    def _open():
        return Store(tmp_path / "kv")

    return _open


def test_values_survive_reopen(reopen):
    with reopen() as store:
        store["a"] = b"1"
        store["b"] = b"2"
        del store["a"]
    with reopen() as store:
        assert dict(store.items()) == {"b": b"2"}
