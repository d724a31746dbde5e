from datetime import datetime, timedelta, timezone

import pytest

from whenlib import parse

CET = timezone(timedelta(hours=1))
ROWS = [
    ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
    ("2024-01-02T03:04:05+01:00", datetime(2024, 1, 2, 3, 4, 5, tzinfo=CET)),
]


@pytest.mark.parametrize("text, expected", ROWS)
def test_parse(text, expected):
    assert parse(text) == expected
