from datetime import datetime, timezone

import pytest

from whenlib import parse


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2024-01-02T03:04:05Z", datetime(2024, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2024-06-02T23:04:05Z", datetime(2024, 6, 2, 23, 4, 5, tzinfo=timezone.utc)),
    ],
)
def test_parse(text, expected):
    assert parse(text).date() == expected.date()
