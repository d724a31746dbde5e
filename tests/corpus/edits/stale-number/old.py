from server.settings import Settings


def test_defaults():
    """The defaults are those of the manual."""
    made = Settings()
    assert made.host == "localhost"
    assert made.port == 8000
    assert made.workers == 1
