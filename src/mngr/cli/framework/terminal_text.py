"""Text for a terminal: without control characters, coloured, measured and cut to fit."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_CONTROL_CHARACTERS = dict.fromkeys(
    (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "?"
)  # all but tab and line end; the last two make a terminal turn text around


_STATE_COLOURS = {
    "RUNNING": "32", "STARTING": "36", "WAITING": "33;1", "PARKED": "35", "DONE": "34",
    "FAILED": "31;1", "STOPPED": "90", "UNKNOWN": "31",
}  # fmt: skip


def strip_controls(text: str) -> str:
    """`text` without anything a terminal would obey."""
    return text.translate(_CONTROL_CHARACTERS)


def clean_screen(text: str, *, colours: bool) -> str:
    """A captured screen with its colours or without them, and with no other escape sequence."""
    import re

    parts = re.split(r"(\x1b\[[0-9;:]*m)", text)
    if not colours:
        return strip_controls("".join(parts[::2]))
    return "".join(part if at % 2 else strip_controls(part) for at, part in enumerate(parts)) + (
        "\x1b[0m" if parts[1:] else ""
    )


def is_coloured(stream: TextIO) -> bool:
    """Whether colour is welcome."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def colour_state(state: str) -> str:
    """A state in its colour."""
    return f"\x1b[{_STATE_COLOURS.get(state, '0')}m{state}\x1b[0m"


def get_width() -> int:
    """Columns of the terminal, unlimited where there is none."""
    if not sys.stdout.isatty():
        return 10_000
    try:
        return os.get_terminal_size().columns
    except OSError:
        return 80


def get_terminal_size() -> tuple[int, int]:
    """Columns and lines of the terminal that messages go to."""
    try:
        return os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        return 80, 24


def count_columns(text: str) -> int:
    """How many columns of a terminal a line takes at most."""
    import unicodedata

    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(char != "\ufe0f" and bool(unicodedata.combining(char)) for char in text)


def fit_line(text: str, most: int) -> str:
    """Return the text on one line, cut to a number of columns, without control characters."""
    line = strip_controls(text.translate({9: " ", 10: " "}))
    while (over := count_columns(line) - most) > 0:
        line = line[: -max(1, over // 2)]
    return line
