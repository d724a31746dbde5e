"""The tabs about the selected agent. They load in the background, and only the visible tab is kept up to date."""

from __future__ import annotations

import threading

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static, Tab, Tabs

from mngr.api import Fleet
from mngr.board.detail_texts import build_texts
from mngr.board.line_view import LineView
from mngr.overview.agent_cards import AgentCard
from mngr.overview.agent_details import (
    LIVE_STATES,
    LONGEST_PAUSE,
    SHORTEST_PAUSE,
    TABS,
    AgentDetail,
    Span,
    load_detail,
)
from mngr.overview.untrusted_text import clean_line

_SELECT_DELAY = 0.12  # seconds without another selection before the tab loads
_MAX_LOADS = 4  # at the same time, because a host that does not answer blocks its load


class DetailPane(Vertical):
    """Screen, conversation, diff, events and explanation of one agent."""

    DEFAULT_CSS = """
    DetailPane > Static { height: 1; }
    DetailPane > Tabs { height: 2; }
    """

    class Loaded(Message):
        """A tab was loaded. `number` is the number of the load."""

        def __init__(self, number: int, detail: AgentDetail) -> None:
            super().__init__()
            self.number = number
            self.detail = detail

    def __init__(self, fleet: Fleet, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._fleet = fleet
        self._card: AgentCard | None = None
        self.tab = "screen"
        self.view = LineView(id="detail-lines")
        self._title = Static(id="detail-title", markup=False)
        self._number = 0  # of the latest load
        self._load_count = 0
        self._is_fresh = True  # True until the first lines of this agent and tab are shown
        self._pause = SHORTEST_PAUSE
        self._timer: Timer | None = None
        self._shown: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """Create the heading, the tabs and the lines."""
        yield self._title
        yield Tabs(*(Tab(title, id=tab) for tab, title in TABS.items()))
        yield self.view

    def show_card(self, card: AgentCard | None) -> None:
        """Show an agent, or nothing. The agent that is shown already loads again if it did something."""
        old, self._card = self._card, card
        self._title.update(_format_title(card))
        if card is None or old is None or old.id != card.id:
            self._start_again()
        elif _has_acted(old, card):
            self._pause = SHORTEST_PAUSE
            self._load_after(SHORTEST_PAUSE)

    def show_tab(self, tab: str) -> None:
        """Show another tab."""
        tabs = self.query_one(Tabs)
        if tabs.active != tab:
            tabs.active = tab

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Load the tab that a person chose."""
        if event.tab.id and event.tab.id != self.tab:
            self.tab = event.tab.id
            self._start_again()

    def _start_again(self) -> None:
        self._number += 1  # Ignore what still loads.
        self._is_fresh = True
        self._pause = SHORTEST_PAUSE
        if self._card is None:
            self.view.show_lines((), keep_place=False)
            return
        self._load_after(_SELECT_DELAY)

    def _load_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._load)

    def _load(self) -> None:
        """Load the tab in its own thread, because a host that does not answer can block the thread for long."""
        if self._card is None:
            return
        if self._load_count >= _MAX_LOADS:
            self.view.show_lines([Text("waiting for hosts that do not answer", style="yellow")], keep_place=False)
            self._load_after(1.0)
            return
        self._number += 1
        self._load_count += 1
        arguments = self._number, self._card.id, self.tab
        threading.Thread(target=self._load_in_thread, args=arguments, daemon=True).start()

    def _load_in_thread(self, number: int, agent_id: str, tab: str) -> None:
        try:
            detail = load_detail(self._fleet, agent_id, tab)
        except Exception as error:  # A bug in one tab must not end the board.
            text = clean_line(f"mngr cannot show this: {type(error).__name__}: {error}")
            detail = AgentDetail(lines=((Span(text=text, style="warning"),),))
        self.post_message(self.Loaded(number, detail))

    def on_detail_pane_loaded(self, message: Loaded) -> None:
        """Show what was loaded, unless something else was requested since, and plan the next look at a screen."""
        self._load_count -= 1
        if message.number != self._number or self._card is None:
            return
        detail = message.detail
        lines = build_texts(detail)
        texts = tuple(line.plain for line in lines)
        is_changed = texts != self._shown
        self._shown = texts
        self.view.show_lines(lines, follow_end=detail.is_log, keep_place=not self._is_fresh, wrap=detail.is_prose)
        self._is_fresh = False
        if self.tab == "screen" and self._card.view.state in LIVE_STATES:
            self._pause = SHORTEST_PAUSE if is_changed else min(LONGEST_PAUSE, self._pause * 2)
            self._load_after(self._pause)


def _has_acted(old: AgentCard, card: AgentCard) -> bool:
    """True when the agent's tabs may show something new."""
    return (old.view.state, old.view.activity_at, old.facts) != (card.view.state, card.view.activity_at, card.facts)


def _format_title(card: AgentCard | None) -> Text:
    if card is None:
        return Text("no agent is selected", style="dim")
    view = card.view
    labels = " ".join(f"{key}={value}" for key, value in view.labels.items())
    return Text(clean_line(f"{view.name}  {view.kind}  {view.project}  {labels}"), style="bold")
