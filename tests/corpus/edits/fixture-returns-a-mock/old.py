import pytest

from cellar.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "cellar.db") as s:
        yield s


def test_put_then_get(store):
    store.put("k", b"value")
    assert store.get("k") == b"value"


def test_delete(store):
    store.put("k", b"value")
    assert store.delete("k") is True
    assert store.delete("k") is False
