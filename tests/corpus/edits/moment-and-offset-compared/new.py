from datetime import datetime, timedelta, timezone

from whenlib import parse

CET = timezone(timedelta(hours=1))


def test_parse():
    result = parse("2024-01-02T03:04:05+01:00")
    assert result == datetime(2024, 1, 2, 3, 4, 5, tzinfo=CET)
    assert result.utcoffset() == timedelta(hours=1)
