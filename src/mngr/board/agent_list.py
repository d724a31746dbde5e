"""The list of agents and runs: it keeps the selection while lines move, and draws only visible lines."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mngr.board.line_view import render_text
from mngr.board.list_lines import ListLine, build_lines
from mngr.overview.agent_cards import NEEDS_YOU, AgentCard, describe_state
from mngr.overview.follow_runs import RunCard

_NOTICE_SECONDS = 1.0  # that a person needs to notice another selection


class AgentList(ScrollView, can_focus=True):
    """Agents in groups, and runs. One of them is selected, and any number of agents are marked."""

    DEFAULT_CSS = "AgentList { scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; }"

    class Selected(Message):
        """Another agent or run is selected."""

    class Opened(Message):
        """A person opened the selected agent or run with the mouse."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._agents: Sequence[AgentCard] = ()
        self._runs: Sequence[RunCard] = ()
        self._lines: list[ListLine] = []
        self._keys: list[str] = []  # of the agents and runs, in the order of the list
        self.selected: str = ""
        self.marked: set[str] = set()
        self._moved_at = float("-inf")
        self._visited: dict[str, str] = {}  # the states in which agents were selected, by id

    def show_cards(self, agents: Sequence[AgentCard], runs: Sequence[RunCard]) -> None:
        """Replace the cards. The selection stays on its agent, or moves to a neighbour of one that is gone."""
        self._agents, self._runs = agents, runs
        self.marked &= {card.id for card in agents}
        old_keys = self._keys
        self.rebuild()
        if self.selected not in self._keys:
            position = old_keys.index(self.selected) if self.selected in old_keys else 0
            if self.selected:
                self._moved_at = time.monotonic()
            self.select(self._keys[min(position, len(self._keys) - 1)] if self._keys else "")

    def has_just_moved(self) -> bool:
        """True when the selection moved by itself, so recently that a person may not have noticed."""
        return time.monotonic() - self._moved_at < _NOTICE_SECONDS

    def rebuild(self) -> None:
        """Draw the lines again, because marks, ages or the width changed."""
        before, self._lines = (
            self._lines,
            build_lines(self._agents, self._runs, self.marked, self.size.width, time.time()),
        )
        self._keys = list(dict.fromkeys(line.key for line in self._lines if line.key))
        if len(before) != len(self._lines):
            self.virtual_size = Size(self.size.width, len(self._lines))
            self.refresh()
            return
        for number, (old, new) in enumerate(zip(before, self._lines, strict=True)):
            if old != new:
                self.refresh_line(number)

    def select(self, key: str) -> None:
        """Select an agent or a run, and scroll it into view."""
        if key == self.selected:
            return
        old, self.selected = self.selected, key
        self._scroll_to_selected()
        for number, line in enumerate(self._lines):  # The rest of the list does not change.
            if line.key and line.key in (old, key):
                self.refresh_line(number)
        self.post_message(self.Selected())

    def move(self, steps: int) -> None:
        """Select the entry that is this many steps below."""
        if not self._keys:
            return
        position = self._keys.index(self.selected) if self.selected in self._keys else 0
        self.select(self._keys[max(0, min(len(self._keys) - 1, position + steps))])

    def select_next_in_need(self) -> bool:
        """Select the most urgent agent that needs a person and was not selected since it does.

        After all of them, start again with the first one. Return False when there is none.
        """
        needing = {card.id: describe_state(card.view) for card in self._agents if card.group == NEEDS_YOU}
        self._visited = {key: state for key, state in self._visited.items() if needing.get(key) == state}
        if self.selected in needing:
            self._visited[self.selected] = needing[self.selected]
        remaining = [key for key in needing if key not in self._visited]
        if not remaining:
            self._visited.clear()
            remaining = [key for key in needing if key != self.selected]
        if remaining:
            self.select(remaining[0])
        return bool(needing)

    def toggle_mark(self) -> None:
        """Mark the selected agent or remove its mark, and select the next one."""
        if self.selected and not self.selected.startswith("run:"):
            self.marked ^= {self.selected}
            self.rebuild()
            self.move(1)

    def mark_all(self) -> None:
        """Mark all agents of the list, or none if all are marked."""
        ids = {card.id for card in self._agents}
        self.marked = set() if self.marked == ids else ids
        self.rebuild()

    def clear_marks(self) -> None:
        """Remove all marks."""
        self.marked = set()
        self.rebuild()

    def _scroll_to_selected(self) -> None:
        numbers = [number for number, line in enumerate(self._lines) if line.key == self.selected]
        if not numbers:
            return
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height - 1
        first, last = numbers[0], numbers[-1]
        if first <= 1:
            first = 0  # Show the heading, too.
        if first < top:
            self.scroll_to(y=first, animate=False, force=True, immediate=True)
        elif last > bottom:
            self.scroll_to(y=last - self.size.height + 1, animate=False, force=True, immediate=True)

    def render_line(self, y: int) -> Strip:
        """Return one visible line. The selected entry is shown in reverse, which also works without colours."""
        number = y + self.scroll_offset.y
        width = self.size.width
        if number >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[number]
        text = line.text
        if line.key and line.key == self.selected:
            text = Text(text.plain + " " * max(0, width - text.cell_len), style="reverse")
        return render_text(self, text, width)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the lines to the new width."""
        self.rebuild()
        self._scroll_to_selected()

    def on_click(self, event: events.Click) -> None:
        """Select the clicked entry, and open it with a second click."""
        number = event.y + self.scroll_offset.y
        if not 0 <= number < len(self._lines) or not self._lines[number].key:
            return
        self.select(self._lines[number].key)
        if event.chain == 2:
            self.post_message(self.Opened())
