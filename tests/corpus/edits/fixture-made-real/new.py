import pytest

from kvstore import Store


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "kv") as made:
        yield made


def test_put(store):
    """What is put can be had."""
    store["a"] = "1"
    assert store["a"] == "1"
    assert len(store) == 1
