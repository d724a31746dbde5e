from desk import describe


def test_describe():
    """A desk is described."""
    assert describe("oak desk") == {"wood": "oak", "kind": "desk"}
