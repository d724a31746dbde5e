from settings import load


def test_defaults():
    """Without a file there are defaults."""
    found = load(None)
    assert found["colour"] == "auto"
    assert found["width"] == 80
