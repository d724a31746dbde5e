from units import parse


def test_seconds():
    """A plain number is seconds."""
    assert parse("15") == 15


def test_minutes():
    """m is minutes."""
    assert parse("2m") == 120


def test_hours():
    """h is hours."""
    assert parse("1h") == 3600
