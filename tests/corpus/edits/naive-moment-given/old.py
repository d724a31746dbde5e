from datetime import datetime, timezone

from whenlib import show

NOON = datetime(2024, 1, 2, 12, 0, tzinfo=timezone.utc)


def test_show():
    assert show(NOON) == "2024-01-02 12:00 UTC"
