from settings import load


def test_defaults():
    """Without a file there are defaults."""
    assert load(None) == {"colour": "auto", "width": 80}
