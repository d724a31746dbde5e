from settings import load


def test_defaults():
    """Without a file there are defaults."""
    found = load(None)
    assert "colour" in found
    assert found["width"] > 0
    assert found.get("colour") == "auto"
    assert set(found) >= {"colour", "width"}
