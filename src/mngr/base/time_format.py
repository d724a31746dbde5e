"""Formats and parses timestamps and durations."""

from __future__ import annotations

import time

from mngr.base.errors import UsageError

_MAX_DATES = 1000
_days_by_date: dict[str, int] = {}  # the dates that were parsed before
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def format_timestamp(timestamp: float | None = None) -> str:
    """Return a time (default: now) in UTC as `2026-11-15T21:30:00.123Z`."""
    timestamp = time.time() if timestamp is None else timestamp
    seconds = int(timestamp)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int((timestamp - seconds) * 1000):03d}Z"


def parse_timestamp(text: str) -> float:
    """Return the seconds since the epoch of a text from `format_timestamp`, or raise ValueError.

    The date is computed by hand because `time.strptime` imports modules that cost 5 ms.
    """
    if len(text) < 19 or text[10] + text[13] + text[16] != "T::":
        raise ValueError(f"{text!r} is not a time")
    date = text[:10]
    days = _days_by_date.get(date)
    if days is None:
        if len(_days_by_date) >= _MAX_DATES:
            _days_by_date.clear()
        days = _days_by_date[date] = _count_days(date)
    return days * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + float(text[17:].rstrip("Z"))


def _count_days(date: str) -> int:
    """Return the days since the epoch of a date, or raise ValueError."""
    if date[4] + date[7] != "--":
        raise ValueError(f"{date!r} is not a date")
    year, month, day = int(date[:4]), int(date[5:7]), int(date[8:])
    year -= month < 3  # The year begins in March here, so the leap day is its last day.
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as `90`, `90s`, `10m`, `1h30m` or `2d`, or raise UsageError."""
    import re

    match = re.fullmatch(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", text.strip(), re.ASCII)
    if not match:
        raise UsageError(f"{text!r} is not a length of time", "write it as 90s, 10m, 1h30m or 2d")
    if text.strip()[-1].isdigit():
        return float(text)
    return sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([smhd])", text))


def format_duration(seconds: float) -> str:
    """Return a duration in the form that `parse_duration` reads: 90 seconds become `1m30s`."""
    text, remaining = "", seconds
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        count, remaining = divmod(remaining, size)
        text += f"{int(count)}{unit}" if count else ""
    return text + (f"{remaining:g}s" if remaining or not text else "")


def format_age(seconds: float) -> str:
    """Return a duration in its largest whole unit: `12s`, `5m`, `3h` or `2d`."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


def format_time_ago(seconds: float) -> str:
    """Return how long ago something happened, in words: `12 seconds ago` or `1 day ago`."""
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        count = int(seconds // size)
        if count > 0:
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
