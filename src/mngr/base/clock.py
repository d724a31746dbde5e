"""Times as they are written down, and lengths of time as people write them."""

from __future__ import annotations

import time

from mngr.base.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def format_timestamp(at: float | None = None) -> str:
    """UTC as `2026-11-15T21:30:00.123Z`."""
    at = time.time() if at is None else at
    whole = int(at)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((at - whole) * 1000):03d}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of what `stamp` wrote; ValueError. (time.strptime would import what costs 5 ms.)"""
    if len(text) < 19 or text[4] + text[7] + text[10] + text[13] + text[16] != "--T::":
        raise ValueError(f"{text!r} is not a time")
    year, month, day = int(text[:4]), int(text[5:7]), int(text[8:10])
    year -= month < 3  # years begin in March, so that the leap day is the last one
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * ((month + 9) % 12) + 2) // 5 + day - 719469
    return days * 86400 + int(text[11:13]) * 3600 + int(text[14:16]) * 60 + float(text[17:].rstrip("Z"))


def parse_duration(text: str) -> float:
    """Seconds of `90`, `90s`, `10m`, `1h30m`, `2d`."""
    import re

    found = re.fullmatch(r"(?:\d+(?:\.\d+)?[smhd])+|\d+(?:\.\d+)?", text.strip(), re.ASCII)
    if not found:
        raise UsageError(f"{text!r} is not a length of time", "write it as 90s, 10m, 1h30m or 2d")
    if text.strip()[-1].isdigit():
        return float(text)
    return sum(float(n) * _UNITS[u] for n, u in re.findall(r"(\d+(?:\.\d+)?)([smhd])", text))


def format_duration(seconds: float) -> str:
    """A length of time as `parse_length` reads it: `90s` is `1m30s`."""
    shown, left = "", seconds
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        count, left = divmod(left, size)
        shown += f"{int(count)}{unit}" if count else ""
    return shown + (f"{left:g}s" if left or not shown else "")


def format_age(seconds: float) -> str:
    """A length of time in the one unit that says most: `12s`, `5m`, `3h`, `2d`."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
