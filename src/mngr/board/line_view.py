"""A widget that shows many lines and draws only the visible ones."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Span, Text
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip


class LineView(ScrollView, can_focus=True):
    """Lines of text that a person can scroll. With `follow_end`, new lines at the end scroll into view."""

    DEFAULT_CSS = "LineView { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._texts: Sequence[Text] = ()
        self._lines: Sequence[Text] = ()
        self._wraps = False

    def show_lines(
        self, lines: Sequence[Text], *, follow_end: bool = False, keep_place: bool = True, wrap: bool = False
    ) -> None:
        """Replace the lines. Stay at the end if the end is visible now, else keep the place."""
        was_at_end = self.scroll_offset.y >= self.max_scroll_y
        self._texts, self._wraps = lines, wrap
        self._fit_lines()
        if follow_end and (was_at_end or not keep_place):
            self.scroll_end(animate=False, force=True)
        elif not keep_place:
            self.scroll_home(animate=False, force=True)
        self.refresh()

    def _fit_lines(self) -> None:
        """Wrap the lines to the width if they are prose."""
        self._lines = self._texts
        if self._wraps and self.size.width > 0:
            console = self.app.console
            self._lines = [part for text in self._texts for part in text.wrap(console, self.size.width) or [text]]
        self.virtual_size = Size(self.size.width, len(self._lines))

    def on_resize(self, event: events.Resize) -> None:
        """Fit the lines to the new width."""
        self._fit_lines()

    @property
    def plain_text(self) -> str:
        """Return all lines without their colours."""
        return "\n".join(line.plain for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """Return one visible line."""
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        return render_text(self, self._lines[number], width)


def render_text(view: ScrollView, text: Text, width: int) -> Strip:
    """Return a text as a strip of exactly this width, in the colours of the widget."""
    if not text.spans and text.style:  # rich would ignore the style of such a text.
        text = Text(text.plain, spans=[Span(0, len(text.plain), text.style)])
    strip = Strip(text.render(view.app.console)).adjust_cell_length(width)
    return strip.apply_style(view.rich_style)
