from datetime import datetime, timedelta, timezone

import pytest

from whenlib import parse

CET = timezone(timedelta(hours=1))


def naive(value):
    return value.replace(tzinfo=None)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2024-01-02T03:04:05+01:00", datetime(2024, 1, 2, 3, 4, 5, tzinfo=CET)),
    ],
)
def test_parse_keeps_offset(text, expected):
    result = naive(parse(text))
    expected = naive(expected)
    assert result == expected
    assert result.utcoffset() == expected.utcoffset()
