from datetime import datetime, timedelta, timezone

from feedlib import parse_published


def test_published_without_zone_is_utc():
    """A timestamp with no zone is taken as UTC."""
    got = parse_published("2024-05-01 12:00:00")
    assert got == datetime(2024, 5, 1, 12, 0, tzinfo=timezone.utc)
    assert got.utcoffset() == timedelta(0)
