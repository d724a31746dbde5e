"""Turns a terminal recording into an animated picture: `python scripts/cast_to_svg.py IN.cast OUT.svg`.

The picture has one text element for each content that a row of the terminal shows, and the times at which it is visible.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

CELL, LINE, MARGIN, BAR = 8.4, 19.0, 16.0, 30.0
LONGEST_PAUSE, LAST_PAUSE = 2.0, 5.0
FOREGROUND, BACKGROUND = "#d8dee9", "#1f2430"
COLOURS = {
    "red": "#f07178", "green": "#a6d189", "brown": "#e5c07b", "yellow": "#e5c07b", "blue": "#82aaff", "magenta": "#c792ea",
    "cyan": "#89ddff", "brightblack": "#8a93a6", "white": "#ffffff",
}  # fmt: skip

Style = tuple[str, bool]  # colour, bold
Row = tuple[tuple[Style, int, str], ...]  # style, column and text of each piece


@dataclass(frozen=True)
class Span:
    """A content of one row, and the time during which the row shows it."""

    row: int
    content: Row
    start: float
    end: float


def read_row(screen: pyte.Screen, number: int) -> Row:
    """Return the pieces of one row of the screen."""
    pieces: list[tuple[Style, int, str]] = []
    for column in range(screen.columns):
        char = screen.buffer[number][column]
        style = (COLOURS.get(char.fg, FOREGROUND), bool(char.bold))
        if pieces and pieces[-1][0] == style:
            pieces[-1] = (style, pieces[-1][1], pieces[-1][2] + char.data)
        else:
            pieces.append((style, column, char.data))
    return tuple((style, column, text.rstrip()) for style, column, text in pieces if text.strip())


def play(lines: list[str]) -> Iterator[tuple[float, pyte.Screen]]:
    """Yield the screen after each event, with the time at which the picture shows it."""
    header = json.loads(lines[0])
    screen = pyte.Screen(header["width"], header["height"])
    stream = pyte.Stream(screen)
    shown_at = recorded_at = 0.0
    for line in lines[1:]:
        at, kind, text = json.loads(line)
        shown_at += min(at - recorded_at, LONGEST_PAUSE)
        recorded_at = at
        if kind == "o":
            stream.feed(text)
            yield shown_at, screen


def find_spans(lines: list[str]) -> tuple[list[Span], float]:
    """Return the contents of all rows with their times, and the length of the picture."""
    current: dict[int, tuple[Row, float]] = {}
    spans: list[Span] = []
    now = 0.0
    for at, screen in play(lines):
        now = at
        for number in range(screen.lines):
            content, since = current.get(number, ((), 0.0))
            new = read_row(screen, number)
            if new != content:
                spans.append(Span(number, content, since, at))
                current[number] = (new, at)
    end = now + LAST_PAUSE
    spans += [Span(number, content, since, end) for number, (content, since) in current.items()]
    return [span for span in spans if span.content and span.end - span.start > 0.02], end


def draw_span(span: Span, length: float) -> str:
    """Return the SVG of one content. Without animation, the picture shows the last screen."""
    y = BAR + MARGIN + LINE * (span.row + 0.75)
    texts = ""
    for (colour, bold), column, text in span.content:
        weight = ' font-weight="bold"' if bold else ""
        texts += f'<tspan x="{MARGIN + CELL * column:.1f}" fill="{colour}"{weight}>{escape(text)}</tspan>'
    is_last = span.end >= length
    start, end = span.start / length, min(span.end / length, 1.0)
    times, values = (f"0;{start:.4f}", "0;1") if is_last else (f"0;{start:.4f};{end:.4f}", "0;1;0")
    animation = f'<animate attributeName="opacity" dur="{length:.2f}s" repeatCount="indefinite" calcMode="discrete" keyTimes="{times}" values="{values}"/>'
    return f'<text y="{y:.1f}" opacity="{1 if is_last else 0}">{texts}{animation}</text>'


def convert(cast: str, title: str) -> str:
    """Return the animated picture of a recording."""
    lines = cast.splitlines()
    header = json.loads(lines[0])
    spans, length = find_spans(lines)
    rows = max(span.row for span in spans) + 1
    width, height = 2 * MARGIN + CELL * header["width"], BAR + 2 * MARGIN + LINE * rows
    dots = "".join(
        f'<circle cx="{MARGIN + 6 + 18 * i}" cy="{BAR / 2 + 4}" r="5.5" fill="{colour}"/>'
        for i, colour in enumerate(("#f07178", "#e5c07b", "#a6d189"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,\'DejaVu Sans Mono\',monospace" font-size="14">\n'
        f"<title>{escape(title)}</title>\n<style>text{{white-space:pre}}</style>\n"
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>{dots}\n'
        + "\n".join(draw_span(span, length) for span in spans)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:3])
    target.write_text(convert(source.read_text(), "A terminal session with mngr and Claude Code"))
