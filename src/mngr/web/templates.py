"""Renders the templates of all pages.

A template gets typed facts. `{{ value }}` is always escaped, without secrets and with visible control codes.
"""

from __future__ import annotations

import functools
import json
import re

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from mngr.base.size_format import choose_noun, format_count
from mngr.web.untrusted_text import CleanText, clean_text, cut_text, limit_text, split_code, strip_direction_controls

_CLASS_NAME = re.compile(r"[a-z][a-z_-]{0,30}")


@functools.lru_cache(maxsize=1024)
def to_class_name(value: object) -> str:
    """Return the CSS class for a value."""
    text = str(value or "").lower().replace(" ", "-")
    return f"c-{text}" if _CLASS_NAME.fullmatch(text) else "c-other"


def get_clock_time(timestamp: str) -> str:
    """Return the time of day of a timestamp."""
    return timestamp[11:19]


def count_surplus(value: object, max_length: int) -> int:
    """Return how many characters of a text are above a limit."""
    return max(0, len("" if value is None else str(value)) - max_length)


def dump_recording(cast: str) -> Markup:
    """Return a recording as JSON that cannot end the script element that contains it."""
    return Markup(json.dumps(strip_direction_controls(cast)).replace("<", "\\u003c"))


def shorten_number(number: float) -> str:
    """Return a count that is easy to read: 950, 12k, 3.4M."""
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.{0 if number >= 10 * scale else 1}f}{unit}"
    return f"{number:.0f}"


def format_duration(seconds: float | None) -> str:
    """Return a duration that is easy to read: 0.4 s, 12 s, 3:05, 1:02:03."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes_of_hour = divmod(minutes, 60)
    return f"{hours}:{minutes_of_hour:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_dollars(cost: float | None) -> str:
    """Return an amount in US dollars, or a dash if the price is unknown."""
    return "–" if cost is None else f"${cost:.2f}"


def _clean_value(value: object) -> object:
    """Return what a template may escape and show for the value of an expression. HTML from a template stays as it is.

    A page has many values, and markupsafe escapes a `str` fastest, so the frequent types come first.
    """
    kind = type(value)
    if kind is str or kind is CleanText:
        return str(clean_text(value))
    if kind is int or kind is float:
        return str(value)
    return value if isinstance(value, (Markup, Undefined)) else str(clean_text(value))


ENVIRONMENT = Environment(
    loader=PackageLoader("mngr.web", "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    finalize=_clean_value,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
ENVIRONMENT.filters.update(
    class_name=to_class_name,
    clock=get_clock_time,
    counted=format_count,
    cut=cut_text,
    dollars=format_dollars,
    duration=format_duration,
    limited=limit_text,
    noun=choose_noun,
    recording_data=dump_recording,
    short_number=shorten_number,
    split_code=split_code,
    surplus=count_surplus,
)


def render_template(name: str, **facts: object) -> str:
    """Return what a template makes from facts. Raise UndefinedError when it uses a name that is not given."""
    return ENVIRONMENT.get_template(name).render(facts)
