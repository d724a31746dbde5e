from server.settings import Settings


def test_defaults():
    """The defaults are those of the manual."""
    made = Settings()
    assert made.host == "localhost"
    assert made.port == 8000
    assert made.workers == 1


def test_settings_are_frozen():
    """Two settings with the same values are equal."""
    assert Settings(port=1) == Settings(port=1)
