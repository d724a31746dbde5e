import plugs


def test_plugs_are_listed():
    """Plugs are listed by name."""
    plugs.register("b", object())
    plugs.register("a", object())
    assert plugs.names() == ["a", "b"]
