import pytest

from cellar.store import MissingKey, Store


@pytest.fixture
def store(tmp_path):
    s = Store.open(str(tmp_path / "cellar.db"))
    yield s
    s.close()


def test_put_then_get(store):
    store.put("k", b"v")
    assert store.get("k") == b"v"


def test_missing(store):
    with pytest.raises(MissingKey):
        store.get("nope")


def test_keys(store):
    store.put("a", b"1")
    store.put("b", b"2")
    assert "a" in store.keys()
    assert "b" in store.keys()
    assert len(store.keys()) == 2
