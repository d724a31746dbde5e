"""Turns the details of an agent into the coloured lines of a terminal."""

from __future__ import annotations

from rich.ansi import AnsiDecoder
from rich.text import Text

from mngr.overview.agent_details import AgentDetail, Span

_STYLES = {
    "bold": "bold",
    "dim": "dim",
    "warning": "yellow",
    "heading": "bold cyan",
    "tool": "magenta",
    "added": "green",
    "removed": "red",
    "hunk": "cyan",
}


def build_texts(detail: AgentDetail) -> list[Text]:
    """Return the lines of a tab. A colour of a screen continues on its next line."""
    decoder = AnsiDecoder()
    return [_build_text(line, decoder) for line in detail.lines]


def _build_text(line: tuple[Span, ...], decoder: AnsiDecoder) -> Text:
    if len(line) == 1 and line[0].style == "screen":
        return decoder.decode_line(line[0].text)
    text = Text(no_wrap=True)
    for span in line:
        text.append(span.text, _STYLES.get(span.style, ""))
    return text
