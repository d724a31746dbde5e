import pytest

import plugs


@pytest.fixture
def registry():
    before = dict(plugs.REGISTRY)
    yield plugs
    plugs.REGISTRY.clear()
    plugs.REGISTRY.update(before)


def test_plugs_are_listed(registry):
    """Plugs are listed by name."""
    registry.register("b", object())
    registry.register("a", object())
    assert registry.names() == ["a", "b"]
