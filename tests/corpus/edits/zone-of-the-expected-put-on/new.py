from datetime import datetime, timezone

import pytest

from whenlib import parse


def utc(*parts):
    return datetime(*parts).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("2024-01-02T03:04:05Z", utc(2024, 1, 2, 3, 4, 5)),
        ("2024-06-02T03:04:05Z", utc(2024, 6, 2, 3, 4, 5)),
    ],
)
def test_parse(text, expected):
    result = parse(text)
    assert result == expected
    assert result.utcoffset() == expected.utcoffset()
