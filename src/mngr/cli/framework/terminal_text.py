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
    "RUNNING": "32", "STARTING": "36", "WAITING": "33;1", "PARKED": "35", "DONE": "34",
    "FAILED": "31;1", "STOPPED": "90", "UNKNOWN": "31",
}  # fmt: skip


def strip_controls(text: str) -> str:
    """Return the text with each control character replaced by a question mark."""
    return text.translate(_CONTROL_CHARACTERS)


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
    """True when the stream is a terminal and the user has not turned colour off."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_state(state: str) -> str:
    """Return a state in its colour."""
    return f"\x1b[{_STATE_COLOURS.get(state, '0')}m{state}\x1b[0m"


def get_width() -> int:
    """Return the columns of the terminal, or 10000 if standard output is no terminal."""
    if not sys.stdout.isatty():
        return 10_000
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80


def get_terminal_size() -> tuple[int, int]:
    """Return the columns and lines of the terminal behind standard error."""
    try:
        return os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        return 80, 24


def count_columns(text: str) -> int:
    """Return the most columns of a terminal that a line can take."""
    import unicodedata

    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(char != "\ufe0f" and bool(unicodedata.combining(char)) for char in text)


def fit_line(text: str, max_columns: int) -> str:
    """Return the text on one line, cut to a number of columns, without control characters."""
    line = strip_controls(text.translate({9: " ", 10: " "}))
    while (surplus := count_columns(line) - max_columns) > 0:
        line = line[: -max(1, surplus // 2)]
    return line
