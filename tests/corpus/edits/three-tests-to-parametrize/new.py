import pytest

from units import parse


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15", 15),
        ("2m", 120),
        ("1h", 3600),
    ],
    ids=["seconds", "minutes", "hours"],
)
def test_parse(text, seconds):
    """A plain number is seconds, m is minutes, h is hours."""
    assert parse(text) == seconds
