import pytest


@pytest.fixture
def store():
    return {}


def test_put(store):
    """What is put can be had."""
    store["a"] = "1"
    assert store["a"] == "1"
    assert len(store) == 1
