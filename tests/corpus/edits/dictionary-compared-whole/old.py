from desk import describe


def test_describe():
    """A desk is described."""
    found = describe("oak desk")
    assert found["wood"] == "oak"
    assert found["kind"] == "desk"
    assert "price" not in found
