"""Text for a terminal: removes control characters, colours, measures and cuts text."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_CONTROL_CHARACTERS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "?"
)  # All but tab and line end. The last two ranges reverse the direction of text.


_STATE_COLOURS = {
    "RUNNING": "32",
    "STARTING": "36",
    "WAITING": "33;1",
    "PARKED": "35",
    "DONE": "34",
    "FAILED": "31;1",
    "STOPPED": "90",
    "UNKNOWN": "31",
}


def strip_controls(text: str) -> str:
    """Return the text with each control character replaced by a question mark."""
    return text.translate(_CONTROL_CHARACTERS)


def join_lines(text: str) -> str:
    """Return the text as one line without control characters, so that it cannot look like several lines of mngr."""
    return strip_controls(text.translate({9: " ", 10: " "}))


def clean_screen(text: str, *, colours: bool) -> str:
    """Return a captured screen without escape sequences, except its colours if `colours` is set."""
    import re

    parts = re.split(r"(\x1b\[[0-9;:]*m)", text)
    if not colours:
        return strip_controls("".join(parts[::2]))
    return "".join(part if index % 2 else strip_controls(part) for index, part in enumerate(parts)) + (
        "\x1b[0m" if parts[1:] else ""
    )


def is_coloured(stream: TextIO) -> bool:
    """True when NO_COLOR is not set, and the stream is a terminal with colours or FORCE_COLOR is set."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def colour_state(state: str) -> str:
    """Return a state, with or without its reason, in its colour."""
    return f"\x1b[{_STATE_COLOURS.get(state.partition(' ')[0], '0')}m{state}\x1b[0m"


def get_width() -> int:
    """Return $COLUMNS or the columns of the terminal, or 10000 if standard output is neither a terminal nor limited."""
    columns = _read_size_variable("COLUMNS")
    if columns is not None:
        return columns
    return _measure_terminal(sys.stdout)[0] if sys.stdout.isatty() else 10_000


def get_terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal behind standard error. An unknown size counts as 80 by 24."""
    columns, lines = _measure_terminal(sys.stderr)
    return _read_size_variable("COLUMNS") or columns, _read_size_variable("LINES") or lines


def _read_size_variable(name: str) -> int | None:
    """Return the positive number in an environment variable, or None."""
    text = os.environ.get(name, "")
    return int(text) or None if text.isascii() and text.isdigit() else None


def _measure_terminal(stream: TextIO) -> tuple[int, int]:
    """Return the columns and lines of a terminal. Some terminals report 0 for a size that they do not know."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    return columns or 80, lines or 24


def count_columns(text: str) -> int:
    """Return how many columns of a terminal a line takes."""
    return len(text) if text.isascii() else sum(_count_char_columns(char) for char in text)


def _count_char_columns(char: str) -> int:
    """Return 0 for a mark that joins the character before it, 2 for a wide character, else 1."""
    import unicodedata

    if char == "\ufe0f":  # It makes the narrow symbol before it wide.
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def fit_line(text: str, max_columns: int) -> str:
    """Return the text on one line, cut to a number of columns, without control characters."""
    line = join_lines(text)
    if line.isascii():
        return line[:max_columns]
    used = 0
    for index, char in enumerate(line):
        used += _count_char_columns(char)
        if used > max_columns:
            return line[:index]
    return line
