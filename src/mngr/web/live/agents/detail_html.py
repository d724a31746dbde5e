"""Turns the details of an agent into HTML. The colours of a screen become CSS classes, and nothing else of it survives."""

from __future__ import annotations

import re
from html import escape

from mngr.overview.agent_details import AgentDetail, Span
from mngr.overview.untrusted_text import clean_line

_COLOURS = re.compile(r"\x1b\[([0-9;]{0,60})m")
_LEVELS = (0, 95, 135, 175, 215, 255)
# The 16 colours of a terminal, to which all others are rounded.
_PALETTE = (
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
)
_ATTRIBUTES = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse"}
_RESET_BY = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",)}


def render_detail(detail: AgentDetail) -> str:
    """Return the lines of a tab as HTML."""
    screen = _ScreenStyle()
    return "\n".join("".join(_render_span(span, screen) for span in line) for line in detail.lines)


def _render_span(span: Span, screen: _ScreenStyle) -> str:
    if span.style == "screen":
        return screen.render(span.text)
    text = escape(span.text)
    return f'<span class="t-{span.style}">{text}</span>' if span.style else text


class _ScreenStyle:
    """The colours at one place of a screen. They continue on the next line."""

    def __init__(self) -> None:
        self._attributes: set[str] = set()
        self._colours: dict[str, int] = {}  # `fg` and `bg`, as numbers of the palette

    def render(self, line: str) -> str:
        """Return a line of the screen as HTML."""
        html = []
        for index, part in enumerate(_COLOURS.split(line)):
            if index % 2:
                self._apply([int(code or 0) for code in part.split(";")])
            elif part:
                text, names = escape(clean_line(part)), self._list_classes()
                html.append(f'<span class="{names}">{text}</span>' if names else text)
        return "".join(html)

    def _list_classes(self) -> str:
        return " ".join(
            [f"s-{name}" for name in sorted(self._attributes)] + [f"{k}-{n}" for k, n in self._colours.items()]
        )

    def _apply(self, codes: list[int]) -> None:
        """Apply the numbers of one escape sequence."""
        while codes:
            code = codes.pop(0)
            if code == 0:
                self._attributes.clear()
                self._colours.clear()
            elif code in _ATTRIBUTES:
                self._attributes.add(_ATTRIBUTES[code])
            elif code in _RESET_BY:
                self._attributes.difference_update(_RESET_BY[code])
            else:
                self._apply_colour(code, codes)

    def _apply_colour(self, code: int, rest: list[int]) -> None:
        key = "bg" if 40 <= code <= 49 or 100 <= code <= 107 else "fg"
        base = code - 10 if key == "bg" else code
        if 30 <= base <= 37:
            self._colours[key] = base - 30
        elif 90 <= base <= 97:
            self._colours[key] = base - 82
        elif base == 39:
            self._colours.pop(key, None)
        elif base == 38 and rest:
            colour = _take_extended_colour(rest)
            if colour is not None:
                self._colours[key] = colour


def _take_extended_colour(rest: list[int]) -> int | None:
    """Return the colour of the palette for `5;N` or `2;R;G;B`, and remove these numbers from the list."""
    mode = rest.pop(0)
    if mode == 5 and rest:
        number = rest.pop(0)
        return number if number < 16 else _round_colour(*_get_colour_of_256(number))
    if mode == 2 and len(rest) >= 3:
        red, green, blue = rest.pop(0), rest.pop(0), rest.pop(0)
        return _round_colour(red, green, blue)
    rest.clear()  # The sequence is not complete.
    return None


def _get_colour_of_256(number: int) -> tuple[int, int, int]:
    if number >= 232:
        grey = 8 + (min(number, 255) - 232) * 10
        return grey, grey, grey
    number -= 16
    return _LEVELS[number // 36], _LEVELS[number // 6 % 6], _LEVELS[number % 6]


def _round_colour(red: int, green: int, blue: int) -> int:
    """Return the number of the colour of the palette that is closest."""

    def distance(index: int) -> int:
        r, g, b = _PALETTE[index]
        return (red - r) ** 2 + (green - g) ** 2 + (blue - b) ** 2

    return min(range(len(_PALETTE)), key=distance)
