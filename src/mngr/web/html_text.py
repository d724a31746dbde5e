"""Text of strangers for a page: escaped, with what cannot be seen made visible, without secrets, and never too long."""

from __future__ import annotations

import functools
import os
import re
from html import escape

from mngr.e2e.redact import Redactor

_DIRECTION_CONTROLS = (
    0x61C,
    0x200E,
    0x200F,
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)  # text is read another way round
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


def escape_plain(value: object, most: int | None = None) -> str:
    """For an attribute, or for what is short: nothing of it is obeyed by a browser."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    cut = "…" if most is not None and len(text) > most else ""
    return escape(_get_redactor()(text[:most].replace("\r\n", "\n")).translate(_VISIBLE_REPLACEMENTS)) + cut


def escape_long(value: object, most: int = 20_000) -> str:
    """The same for a text, which says how much of it is left out."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    over = len(text) - most
    more = f'<span class="cut">… {format_count(over)} characters more are left out</span>' if over > 0 else ""
    return escape_plain(text[:most]) + more


def escape_with_code(value: object, most: int | None = None) -> str:
    """The same as `plain`, with what its writer calls code as code."""
    return _INLINE_CODE.sub(r"<code>\1</code>", escape_plain(value, most))


def strip_direction_controls(cast: str) -> str:
    """A recording without what would turn its text around, written out or as JSON has it."""
    return _ESCAPED_DIRECTION_CONTROLS.sub(r"\1?", cast.translate(dict.fromkeys(_DIRECTION_CONTROLS, "?")))


def to_class_name(value: object) -> str:
    """The name of a class for it."""
    text = str(value or "").lower().replace(" ", "-")
    return f"c-{text}" if _CLASS_NAME.fullmatch(text) else "c-other"


def render_chip(value: object, said: str | None = None) -> str:
    """A word in its colour, or what is said for it."""
    return f'<span class="chip {to_class_name(value)}">{escape_plain(said or value, 30)}</span>' if value else ""


def format_count(number: float) -> str:
    """A count that is easy to read: 950, 12k, 3.4M."""
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.{0 if number >= 10 * scale else 1}f}{unit}"
    return f"{number:.0f}"


def format_duration(seconds: float | None) -> str:
    """How long something took: 0.4 s, 12 s, 3:05, 1:02:03."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def format_dollars(cost: float | None) -> str:
    """US dollars; a dash where the price is not known."""
    return "–" if cost is None else f"${cost:.2f}"


def count_tokens(used: dict[str, object] | None) -> int:
    """What went in and what came out."""
    counts = [(used or {}).get(key) for key in ("input_tokens", "output_tokens")]
    return sum(count for count in counts if isinstance(count, int))
