"""Durations are parsed and shown."""

from datetime import timedelta

import pytest

from humantime import parse, show


@pytest.mark.parametrize(
    "text, seconds",
    [("5s", 5), ("2m", 120), ("1h30m", 5400), ("1d", 86400)],
)
def test_parse(text, seconds):
    assert parse(text) == timedelta(seconds=seconds)


def test_parse_nonsense():
    with pytest.raises(ValueError, match="not a duration: soon"):
        parse("soon")


def test_show():
    assert show(timedelta(seconds=5400)) == "1h30m"
