"""Timestamps and durations."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mngr.base import time_format
from mngr.base.errors import UsageError


@given(st.floats(min_value=0, max_value=4e9))
def test_a_timestamp_round_trips_to_the_millisecond(timestamp: float) -> None:
    text = time_format.format_timestamp(timestamp)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert 0 <= timestamp - time_format.parse_timestamp(text) < 0.0011


@given(st.floats(min_value=0, max_value=4e9), st.floats(min_value=0, max_value=4e9))
def test_timestamps_sort_in_time_order(a: float, b: float) -> None:
    early, late = sorted((a, b))
    assert time_format.format_timestamp(early) <= time_format.format_timestamp(late)


def test_known_times_are_formatted_and_parsed() -> None:
    assert time_format.format_timestamp(1763242200.25) == "2025-11-15T21:30:00.250Z"
    assert time_format.parse_timestamp("2025-11-15T21:30:00Z") == 1763242200.0
    assert time_format.parse_timestamp("2024-02-29T00:00:00Z") == 1709164800.0


@pytest.mark.parametrize("text", ["", "now", "2025-11-15", "2025-11-15 21:30:00", "2025-11-15T21:30:xx"])
def test_an_invalid_timestamp_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|literal|float"):
        time_format.parse_timestamp(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("10m", 600),
        ("1h30m", 5400),
        ("2d", 172800),
        ("1.5h", 5400),
        ("0.5", 0.5),
        (" 5s ", 5),
    ],
)
def test_durations_are_parsed_in_all_their_forms(text: str, seconds: float) -> None:
    assert time_format.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-5", "5x", "1h 30m", "five", "1e3", "٣s", "5s5"])
def test_an_invalid_duration_raises_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a length of time"):
        time_format.parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-3, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (200000, "2d")],
)
def test_an_age_is_shown_in_one_unit(seconds: float, text: str) -> None:
    assert time_format.format_age(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (1, "1 second ago"), (59.9, "59 seconds ago"), (130, "2 minutes ago"), (90000, "1 day ago")],
)
def test_a_time_ago_is_shown_in_words(seconds: float, text: str) -> None:
    assert time_format.format_time_ago(seconds) == text


@given(st.integers(min_value=0, max_value=10**8))
def test_a_duration_round_trips(seconds: int) -> None:
    assert time_format.parse_duration(time_format.format_duration(seconds)) == seconds


def test_durations_are_formatted_without_zero_units() -> None:
    formatted = [time_format.format_duration(seconds) for seconds in (0, 1.5, 90, 3600, 5400, 172800, 90061)]
    assert formatted == ["0s", "1.5s", "1m30s", "1h", "1h30m", "2d", "1d1h1m1s"]
