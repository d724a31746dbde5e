"""Tests that hostile screens and texts cannot control the terminal of the person who reads them."""

from __future__ import annotations

import pytest

from mngr.overview.untrusted_text import MAX_COLUMNS, MAX_LINES, clean_line, split_lines, split_screen

HOSTILE = (
    "\x1b[2J\x1b[H", "\x1b]0;title\x07", "\x1b]8;;http://evil.example\x1b\\", "\x1b]52;c;ZXZpbA==\x07", "\x1bP1$r\x1b\\",
    "\x1b[?1049l", "\x1bc", "\x9b31m", "\x00\x07\x08\r", "\u202e", "\u200b", "\x1b[6n", "\x1b(0", "\x1b", "\x1b[",
)  # fmt: skip


@pytest.mark.parametrize("escape", HOSTILE)
def test_no_escape_sequence_survives(escape: str) -> None:
    for cleaned in (clean_line(f"a{escape}b"), split_screen(f"a{escape}b")[0]):
        assert cleaned.replace("31m", "") in ("ab", "a")
        assert all(char.isprintable() for char in cleaned)


def test_only_the_colours_of_a_screen_are_kept() -> None:
    (line,) = split_screen("\x1b[1;31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07")
    assert line == "\x1b[1;31mred\x1b[0m link"


def test_very_long_texts_are_cut() -> None:
    lines = split_lines("x\n" * 100_000)
    assert len(lines) == MAX_LINES + 1 and "95000 more lines" in lines[-1]
    assert "95000 more lines" in split_lines("x\n" * 100_000, keep_end=True)[0]
    assert len(split_lines("y" * 10_000_000)[0]) == MAX_COLUMNS
    assert len(split_screen("\x1b[31mz" * 1_000_000)[0]) <= MAX_COLUMNS * 8
