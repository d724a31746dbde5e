"""Parses when a limit ends from a program's message: `resets 5:48am (UTC)`, `try again at Nov 20th, 2026 5:00 AM`."""

from __future__ import annotations

import re

from mngr.base import time_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    import datetime

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_RESET_PATTERN = re.compile(
    r"limit\b.*\b(?:resets?(?: at| on)?|try again at) "
    r"(?:(?P<month>[a-z]{3})[a-z]* (?P<day>\d{1,2})(?:st|nd|rd|th)?,?(?: (?P<year>\d{4}))? (?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))? ?(?P<half>[ap]m)(?: \((?P<zone>[a-z_/+-]+)\))?",
    re.IGNORECASE,
)


def find_reset(text: str) -> re.Match[str] | None:
    """Return the part of a text that says when a limit ends, or None."""
    return _RESET_PATTERN.search(text)


def parse_reset(match: re.Match[str], since: str | None, now: float, zone: str | None = None) -> str | None:
    """Return the timestamp of the first matching time after `since`, or None when the match is not a valid time.

    `zone` applies when the text names no time zone.
    """
    import datetime

    part = match.groupdict()
    hour = int(part["hour"]) % 12 + (12 if part["half"].lower() == "pm" else 0)
    minute = int(part["minute"] or 0)
    if hour > 23 or minute > 59:
        return None
    try:
        start = time_format.parse_timestamp(since) if since else now
        begin = datetime.datetime.fromtimestamp(start, _get_zone(part["zone"] or zone))
        end = begin.replace(hour=hour, minute=minute, second=0, microsecond=0)
        if part["month"]:
            end = end.replace(month=_MONTHS.index(part["month"].lower()) + 1, day=int(part["day"]))
            if part["year"]:
                end = end.replace(year=int(part["year"]))
            elif end < begin:
                end = end.replace(year=end.year + 1)
        elif end < begin:
            end += datetime.timedelta(days=1)
    except (ValueError, OverflowError, OSError):
        return None
    return time_format.format_timestamp(end.timestamp())


def _get_zone(name: str | None) -> datetime.tzinfo:
    import datetime
    import zoneinfo

    if name in (None, "UTC"):
        return datetime.UTC
    try:
        if str(name)[:1] in "+-":  # the format of `date +%z`, such as +0130
            return datetime.datetime.strptime(str(name), "%z").tzinfo or datetime.UTC
        return zoneinfo.ZoneInfo(str(name))
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"no time zone {name}") from None
