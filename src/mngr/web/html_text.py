"""Text and small elements for a page. Untrusted text is escaped, limited, without secrets and fully visible."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from html import escape

from mngr.e2e.redact_secrets import Redactor

_DIRECTION_CONTROLS = (
    0x61C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)  # These characters reverse the direction of text.
_INVISIBLE_CHARACTERS = (0x200B, 0x2060, 0xFEFF, *range(0xE0000, 0xE0080))
_VISIBLE_REPLACEMENTS: dict[int, int | str] = {
    **{code: f"^{chr(code ^ 64)}" for code in (*range(32), 127) if code not in (9, 10)},
    **dict.fromkeys((*range(128, 160), *range(0xD800, 0xE000)), 0xFFFD),
    **{code: f"[U+{code:04X}]" for code in (*_DIRECTION_CONTROLS, *_INVISIBLE_CHARACTERS)},
}
_ESCAPED_DIRECTION_CONTROLS = re.compile(r"(?<!\\)((?:\\\\)*)\\u(?:061c|200[ef]|202[a-e]|206[6-9])", re.IGNORECASE)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_CLASS_NAME = re.compile(r"[a-z][a-z_-]{0,30}")


@functools.cache
def _get_redactor() -> Redactor:
    return Redactor(os.environ)


def escape_plain(value: object, max_length: int | None = None) -> str:
    """Return text for an attribute or a short element, escaped and cut to a length."""
    text = _to_text(value)
    if max_length is None or len(text) <= max_length:
        return _escape_redacted(_get_redactor()(text))
    return _escape_redacted(_get_redactor().redact_beginning(text, max_length)) + "…"


def _replace_invisible(text: str) -> str:
    return text.replace("\r\n", "\n").translate(_VISIBLE_REPLACEMENTS)


def _escape_redacted(text: str) -> str:
    return escape(_replace_invisible(text))


def escape_long(value: object, max_length: int = 20_000) -> str:
    """Return long text, escaped and cut, with a note on how much is missing."""
    text = _to_text(value)
    surplus = len(text) - max_length
    if surplus <= 0:
        return escape_plain(text)
    note = f'<span class="cut">… {shorten_number(surplus)} more characters are not shown</span>'
    return _escape_redacted(_get_redactor().redact_beginning(text, max_length)) + note


def _to_text(value: object) -> str:
    return "" if value is None else str(value)


def escape_with_code(value: object, max_length: int | None = None) -> str:
    """Return text like `escape_plain`, with `backquoted` parts as code."""
    return _INLINE_CODE.sub(r"<code>\1</code>", escape_plain(value, max_length))


def strip_direction_controls(cast: str) -> str:
    """Return a recording without characters that reverse the direction of text, raw or as JSON escapes."""
    return _ESCAPED_DIRECTION_CONTROLS.sub(r"\1?", cast.translate(dict.fromkeys(_DIRECTION_CONTROLS, "?")))


def to_class_name(value: object) -> str:
    """Return the CSS class for a value."""
    text = str(value or "").lower().replace(" ", "-")
    return f"c-{text}" if _CLASS_NAME.fullmatch(text) else "c-other"


def render_chip(value: object, label: str | None = None) -> str:
    """Return a value, or the label for it, in the colour of the value."""
    if not value:
        return ""
    return f'<span class="chip {to_class_name(value)}">{escape_plain(label or value, 30)}</span>'


def render_list(items: Sequence[str], class_name: str = "plain", tag: str = "ul") -> str:
    """Return a list of HTML items, or nothing if there is none."""
    if not items:
        return ""
    rows = "".join(f"<li>{item}</li>" for item in items)
    return f'<{tag} class="{class_name}">{rows}</{tag}>'


def render_folded(summary: str, body: str, *, is_open: bool = False) -> str:
    """Return a body that a click on its summary shows, or nothing if the body is empty."""
    if not body:
        return ""
    attribute = " open" if is_open else ""
    return f"<details{attribute}><summary>{summary}</summary>{body}</details>"


def join_limited(items: Sequence[str], max_items: int) -> str:
    """Return HTML items with commas between them, and the number of items that are left out."""
    more = f" and {len(items) - max_items} more" if len(items) > max_items else ""
    return ", ".join(items[:max_items]) + more


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
