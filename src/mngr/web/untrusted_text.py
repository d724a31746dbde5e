"""Text for pages. Untrusted text is limited, without secrets and fully visible; the templates escape it."""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

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
_MAX_CACHED = 100  # Characters of a text that is kept because it may occur again.
_INLINE_CODE = re.compile(r"`([^`\n]+)`")


class CleanText(str):
    """Text without secrets, whose control codes are visible."""


class TextPart(NamedTuple):
    """A part of a sentence, which is code or not."""

    text: CleanText
    is_code: bool


@functools.cache
def get_redactor() -> Redactor:
    """Return the redactor for the secrets of this process."""
    return Redactor(os.environ)


def clean_text(value: object) -> CleanText:
    """Return the text of a value without secrets and control codes."""
    if type(value) is CleanText:
        return value
    text = _to_text(value)
    return _clean_short(text) if len(text) <= _MAX_CACHED else _show_controls(get_redactor()(text))


@functools.lru_cache(maxsize=16384)
def _clean_short(text: str) -> CleanText:
    """Return clean text. A page repeats most of its short texts, and the search for secrets takes longest."""
    return _show_controls(get_redactor()(text))


def cut_text(value: object, max_length: int) -> CleanText:
    """Return clean text. If it is longer than `max_length`, only its beginning and an ellipsis."""
    text = _to_text(value)
    if len(text) <= max_length:
        return clean_text(text)
    return CleanText(_clean_beginning(text, max_length) + "…")


def limit_text(value: object, max_length: int) -> CleanText:
    """Return clean text, at most `max_length` characters of it."""
    text = _to_text(value)
    return clean_text(text) if len(text) <= max_length else _clean_beginning(text, max_length)


def split_code(value: object, max_length: int) -> list[TextPart]:
    """Return the parts of a text. The `backquoted` parts are code."""
    parts = _INLINE_CODE.split(cut_text(value, max_length))
    return [TextPart(CleanText(part), index % 2 == 1) for index, part in enumerate(parts) if part]


def strip_direction_controls(cast: str) -> str:
    """Return a recording without characters that reverse the direction of text, raw or as JSON escapes."""
    return _ESCAPED_DIRECTION_CONTROLS.sub(r"\1?", cast.translate(dict.fromkeys(_DIRECTION_CONTROLS, "?")))


def _to_text(value: object) -> str:
    return "" if value is None else str(value)


def _clean_beginning(text: str, max_length: int) -> CleanText:
    return _show_controls(get_redactor().redact_beginning(text, max_length))


def _show_controls(text: str) -> CleanText:
    return CleanText(text.replace("\r\n", "\n").translate(_VISIBLE_REPLACEMENTS))
