"""Turns screens, conversations and diffs of agents into lines that cannot control a terminal."""

from __future__ import annotations

import re

MAX_LINES = 5000
MAX_COLUMNS = 1000
_COLOURS = re.compile(r"\x1b\[([0-9;]{0,60})m")
_ESCAPES = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-?]*[ -/]*[@-~]?|[PX^_][^\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)", re.S
)
# Control characters, and characters that are invisible or reverse the direction of text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e0fff]"
)


def clean_line(text: str, max_columns: int = MAX_COLUMNS) -> str:
    """Return untrusted text as one line without escape sequences and control characters."""
    return _UNSAFE.sub("", _ESCAPES.sub("", text[: max_columns * 4]).expandtabs(8))[:max_columns]


def split_lines(text: str, *, keep_end: bool = False) -> list[str]:
    """Return the clean lines of a long text. Of very many lines, keep the first or, with `keep_end`, the last."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    left_out = len(lines) - MAX_LINES
    if left_out <= 0:
        return [clean_line(line) for line in lines]
    note = f"[{left_out} more lines are not shown]"
    if keep_end:
        return [note, *(clean_line(line) for line in lines[-MAX_LINES:])]
    return [*(clean_line(line) for line in lines[:MAX_LINES]), note]


def split_screen(text: str) -> list[str]:
    """Return the lines of a captured screen with the escape sequences of its colours, and no others."""
    lines = []
    for raw_line in text.split("\n")[-MAX_LINES:]:
        parts = _COLOURS.split(raw_line[: MAX_COLUMNS * 8])
        pieces = [f"\x1b[{part}m" if index % 2 else clean_line(part) for index, part in enumerate(parts)]
        lines.append("".join(pieces))
    return lines
