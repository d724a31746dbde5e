from datetime import timedelta

from whenlib import parse


def test_parts():
    made = parse("2024-01-02T03:04:05+01:00")
    assert made.utcoffset() == timedelta(hours=1)
    assert made.hour == 3
