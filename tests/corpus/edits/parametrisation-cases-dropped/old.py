import pytest

from chrono.duration import parse_duration


@pytest.mark.parametrize(
    "text, seconds",
    [
        ("10s", 10),
        ("2m", 120),
        ("1h", 3600),
        ("1h30m", 5400),
        ("-5m", -300),
        ("0.5h", 1800),
    ],
)
def test_parse_duration(text, seconds):
    assert parse_duration(text) == seconds
