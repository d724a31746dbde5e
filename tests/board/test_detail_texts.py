"""Tests the coloured lines of a screen."""

from __future__ import annotations

from rich.text import Text

from mngr.board.detail_texts import build_texts
from mngr.overview.agent_details import AgentDetail, Span
from mngr.overview.untrusted_text import split_screen


def show_screen(text: str) -> list[Text]:
    lines = tuple((Span(text=line, style="screen"),) for line in split_screen(text))
    return build_texts(AgentDetail(lines=lines))


def test_colours_of_a_screen_are_kept_and_its_links_are_not() -> None:
    (line,) = show_screen("\x1b[1;31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07")
    assert line.plain == "red link"
    styles = [str(span.style) for span in line.spans]
    assert any("color(1)" in style and "bold" in style for style in styles)
    assert not any("link" in style for style in styles)


def test_a_colour_continues_on_the_next_line_of_the_screen() -> None:
    first, second = show_screen("\x1b[32mgreen\nstill green")
    assert [str(line.spans[0].style) for line in (first, second)] == ["color(2)", "color(2)"]
