"""The board: a list of agents by what they need, tabs about the selected one, and keys to act on them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.filter import LineFilter, NoColor
from textual.message import Message
from textual.widgets import Footer, Static

from mngr.agents.inspect.filter import compile_filter
from mngr.api import Fleet
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.model import AgentView, Outcome
from mngr.base.size_format import format_count
from mngr.board.agent_list import AgentList
from mngr.board.detail_pane import DetailPane
from mngr.board.dialogs import ConfirmDialog, HelpDialog, TextDialog
from mngr.board.keys import FOOTER_LABELS, KEY_NAMES, KEYS
from mngr.board.messages import format_summary
from mngr.board.run_screen import RunScreen
from mngr.overview.actions import DESTROY, LABEL, MESSAGE, UNDESTROY, Action, run_action
from mngr.overview.agent_cards import AgentCard, describe_state
from mngr.overview.card_words import DONE_WORDS, describe_change, format_failure, format_names
from mngr.overview.follow_runs import RunCard
from mngr.overview.follower import OverviewFollower
from mngr.overview.subscription import Overview
from mngr.overview.untrusted_text import clean_line

_MIN_COLUMNS, _MIN_ROWS = 40, 12
_WIDE_COLUMNS = 110  # from this width on, the tabs are on the right, else below
_SHORTEST_UPDATE = 0.1  # seconds between two updates of the list
_AGE_SECONDS = 10.0  # between two updates of the ages
_CHANGE_LINES = 2


class BoardApp(App[None]):
    """Shows all agents of a home. `attach` returns the command that shows an agent in this terminal."""

    CSS = """
    #summary { height: 1; }
    #news { height: auto; max-height: 3; }
    #panes { height: 1fr; }
    #panes.wide { layout: horizontal; }
    #panes.wide AgentList { width: 1fr; height: 100%; }
    #panes.wide DetailPane { width: 1fr; height: 100%; border-left: solid $panel; padding-left: 1; }
    #panes.narrow { layout: vertical; }
    #panes.narrow AgentList { height: 1fr; }
    #panes.narrow DetailPane { height: 1fr; border-top: solid $panel; }
    #too-small { display: none; width: 100%; height: 100%; }
    Screen.too-small > * { display: none; }
    Screen.too-small > #too-small { display: block; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [
        Binding(key, action, FOOTER_LABELS.get(key, text), show=key in FOOTER_LABELS, key_display=KEY_NAMES.get(key))
        for key, action, text in KEYS
    ]

    class OverviewChanged(Message):
        """The follower has a newer overview."""

    class ActionEnded(Message):
        """An action on agents has ended."""

        def __init__(self, action: Action, outcomes: Sequence[Outcome]) -> None:
            super().__init__()
            self.action = action
            self.outcomes = outcomes

    def __init__(
        self,
        fleet: Fleet,
        *,
        root: str | None = None,
        filter_text: str = "",
        attach: Callable[[str], list[str]] | None = None,
    ) -> None:
        super().__init__()
        self._fleet = fleet
        self._build_attach_argv = attach or fleet.build_attach_argv
        self._root = root
        self._overview = Overview()
        self._list = AgentList(id="agents")
        self._detail = DetailPane(fleet, id="detail")
        self._summary_line = Static("looking for agents", id="summary", markup=False)
        self._news_lines = Static(id="news", markup=False)
        self._filter_text = filter_text
        self._matches = build_filter(filter_text)
        self._changes: list[str] = []  # the latest changes of agents
        self._answer = ""  # what the board said about the person's latest key
        self._destroyed_ids: tuple[str, ...] = ()
        self._is_update_planned = False
        self.theme = choose_theme(os.environ.get("COLORFGBG", ""))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters for each line. textual alone would turn colours to grey with NO_COLOR."""
        filters = super().get_line_filters()
        return [*filters, NoColor()] if self.no_color else filters

    def compose(self) -> ComposeResult:
        """Create the summary, the list, the tabs, the news and the keys."""
        yield self._summary_line
        yield Container(self._list, self._detail, id="panes")
        yield self._news_lines
        yield Footer()
        yield Static(id="too-small", markup=False)

    def on_mount(self) -> None:
        """Start to follow the agents."""
        self._list.focus()
        self.fit_to_size(self.size.width, self.size.height)
        self._follower = OverviewFollower(self._fleet, root=self._root)
        self._subscription = self._follower.subscribe(self._wake_up)
        self.post_message(self.OverviewChanged())
        self.set_interval(_AGE_SECONDS, self._list.rebuild)

    def on_unmount(self) -> None:
        """Stop to follow the agents. Nobody waits for hosts that do not answer."""
        threading.Thread(target=self._follower.close, daemon=True).start()

    def _wake_up(self) -> None:
        """Tell the board, from the follower's thread, that there is something new."""
        self.post_message(self.OverviewChanged())

    # The screen.

    def on_resize(self, event: events.Resize) -> None:
        """Place the tabs where the terminal has room."""
        self.fit_to_size(event.size.width, event.size.height)

    def fit_to_size(self, columns: int, rows: int) -> None:
        """Choose the layout for a size of the terminal."""
        main = self.screen_stack[0]
        is_small = columns < _MIN_COLUMNS or rows < _MIN_ROWS
        main.set_class(is_small, "too-small")
        text = f"The terminal has {columns} columns and {rows} lines. The board needs {_MIN_COLUMNS} and {_MIN_ROWS}."
        main.query_one("#too-small", Static).update(text)
        panes = main.query_one("#panes")
        panes.set_class(columns >= _WIDE_COLUMNS, "wide")
        panes.set_class(columns < _WIDE_COLUMNS, "narrow")

    def on_board_app_overview_changed(self) -> None:
        """Update the list soon. Many changes at the same time are drawn once."""
        if not self._is_update_planned:
            self._is_update_planned = True
            self.set_timer(_SHORTEST_UPDATE, self._update)

    def _update(self) -> None:
        self._is_update_planned = False
        change = self._subscription.take()
        if change is None:
            return
        is_first = not self._overview.is_complete
        self._overview = change.overview
        if not is_first:
            for card_change in change.cards:
                self._add_change(describe_change(card_change))
        self._show_overview()

    def _show_overview(self) -> None:
        cards = [card for card in self._overview.agents if self._matches(card)]
        self._list.show_cards(cards, self._overview.runs)
        self._summary_line.update(format_summary(self._overview, len(cards), self._filter_text))
        self._detail.show_card(self._find_selected())
        for screen in self.screen_stack:
            if isinstance(screen, RunScreen):
                for run in self._overview.runs:
                    if run.name == screen.run.name and run != screen.run:
                        screen.show_run(run)

    def _find_selected(self) -> AgentCard | None:
        return next((card for card in self._overview.agents if card.id == self._list.selected), None)

    def _find_selected_run(self) -> RunCard | None:
        return next((run for run in self._overview.runs if f"run:{run.name}" == self._list.selected), None)

    def on_agent_list_selected(self) -> None:
        """Show the selected agent in the tabs."""
        self._detail.show_card(self._find_selected())

    def on_agent_list_opened(self) -> None:
        """Attach to the agent, or open the run, on which a person clicked twice."""
        self.action_open()

    def _add_change(self, text: str) -> None:
        """Show a change of an agent, below the change before."""
        if text:
            self._changes = [*self._changes, _format_news(text)][-_CHANGE_LINES:]
            self._show_news()

    def _add_news(self, text: str) -> None:
        """Show what became of the person's key. Changes of agents do not replace this line."""
        if text:
            self._answer = _format_news(text)
            self._show_news()

    def _show_news(self) -> None:
        lines = Text("\n".join(filter(None, (*self._changes, self._answer))), no_wrap=True, overflow="ellipsis")
        self._news_lines.update(lines)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys of the board do nothing while a dialog or a run is open."""
        return action in ("quit", "help_quit") or len(self.screen_stack) == 1 or not hasattr(self, f"action_{action}")

    def action_move(self, steps: int) -> None:
        """Select another entry."""
        self._list.move(steps)

    def action_scroll(self, lines: int) -> None:
        """Scroll the visible tab."""
        self._detail.view.scroll_relative(y=lines, animate=False)

    def action_next(self) -> None:
        """Select the next agent that needs a person."""
        if not self._list.select_next_in_need():
            self._add_news("no agent needs you")

    def action_tab(self, tab: str) -> None:
        """Show a tab."""
        self._detail.show_tab(tab)

    def action_mark(self) -> None:
        """Mark the selected agent."""
        self._list.toggle_mark()

    def action_mark_all(self) -> None:
        """Mark all agents."""
        self._list.mark_all()

    def action_clear(self) -> None:
        """Remove the marks, or the filter if nothing is marked."""
        if self._list.marked:
            self._list.clear_marks()
        elif self._filter_text:
            self._set_filter("")

    def action_theme(self) -> None:
        """Change between the dark and the light theme."""
        self.theme = "textual-light" if self.theme == "textual-dark" else "textual-dark"

    def action_help(self) -> None:
        """Show all keys."""
        keys = [(KEY_NAMES.get(key, key.replace("ctrl+", "Ctrl-").capitalize()), text) for key, _, text in KEYS]
        keys = [
            (key if len(key) > 1 else original, text) for (key, text), (original, *_) in zip(keys, KEYS, strict=True)
        ]
        self.push_screen(HelpDialog(keys))

    def action_filter(self) -> None:
        """Ask for a filter."""
        title = "Show only agents that match; an empty filter shows all"
        example = "state == WAITING and labels.team == red"
        self.push_screen(TextDialog(title, example, self._filter_text), self._set_filter)

    def _set_filter(self, text: str | None) -> None:
        if text is None:
            return
        try:
            self._matches = build_filter(text)
        except MngrError as error:
            self._add_news(error.message)
            return
        self._filter_text = text.strip()
        self._show_overview()

    def action_open(self) -> None:
        """Attach to the selected agent, or open the selected run."""
        run = self._find_selected_run()
        if run is not None:
            self.push_screen(RunScreen(run))
            return
        card = self._find_selected()
        if card is not None:
            self._attach_to(card)

    def _attach_to(self, card: AgentCard) -> None:
        """Give the terminal to the agent until the person detaches."""
        try:
            argv = self._build_attach_argv(card.id)
        except MngrError as error:
            self._add_news(f"{error.message}; {error.hint}" if error.hint else error.message)
            return
        environment = {key: value for key, value in os.environ.items() if key not in ("TMUX", "TMUX_PANE")}
        with self.suspend():
            code = shell.wait_process(shell.start_process(argv, env=environment))
        self._add_news(
            f"back from {card.view.name}" if code == 0 else f"{card.view.name}: the terminal ended with {code}"
        )
        self._follower.refresh([card.id])

    # Actions on agents.

    def _list_targets(self) -> list[AgentCard]:
        """Return the marked agents, or the selected one. A selection that has just moved by itself does not count."""
        if not self._list.marked and self._list.has_just_moved():
            self._add_news("the selected agent is gone; look at the new selection, then press the key again")
            return []
        wanted = self._list.marked or {self._list.selected}
        targets = [card for card in self._overview.agents if card.id in wanted]
        if not targets:
            self._add_news("no agent is selected")
        return targets

    def action_act(self, kind: str) -> None:
        """Run an action that needs no further input."""
        self._start_action(kind, self._list_targets())

    def action_message(self) -> None:
        """Ask for a message and send it."""
        self._ask_and_start(MESSAGE, "Message to", "your message")

    def action_label(self) -> None:
        """Ask for labels and set them."""
        self._ask_and_start(LABEL, "Labels of", "team=red sets a label, team- removes it")

    def _ask_and_start(self, kind: str, title: str, placeholder: str) -> None:
        """Ask for a text, and act on the agents that the question named, whatever is selected by then."""
        targets = self._list_targets()
        if targets:
            dialog = TextDialog(f"{title} {format_names([card.view for card in targets])}", placeholder)
            self.push_screen(dialog, lambda text: self._start_action(kind, targets, text) if text else None)

    def action_destroy(self) -> None:
        """Ask whether to destroy, and destroy the agents that the question named."""
        targets = self._list_targets()
        if targets:
            names = format_names([card.view for card in targets])
            question = f"Move {names} to the trash? Running programs are ended. You can undo this with u."
            self.push_screen(ConfirmDialog(question), lambda yes: self._start_action(DESTROY, targets) if yes else None)

    def action_undo(self) -> None:
        """Restore what was destroyed last."""
        if self._destroyed_ids:
            self._run_in_background(Action(kind=UNDESTROY, ids=self._destroyed_ids))
        else:
            self._add_news("you have destroyed no agent in this board")

    def _start_action(self, kind: str, targets: Sequence[AgentCard], text: str = "") -> None:
        if targets:
            states = {card.id: describe_state(card.view) for card in targets}
            self._run_in_background(Action(kind=kind, ids=tuple(states), text=text, seen_states=states))

    def _run_in_background(self, action: Action) -> None:
        """Run an action in its own thread, so that the board stays usable."""
        self._add_news(f"{action.kind}: {format_count(len(action.ids), 'agent')} …")
        # Not a daemon: when a person leaves the board, the process ends only after the action.
        threading.Thread(target=self._run_action, args=(action,), name=f"mngr action {action.kind}").start()

    def _run_action(self, action: Action) -> None:
        try:
            outcomes = run_action(self._fleet, action)
        except Exception as error:  # A bug in one action must not end the board.
            outcomes = [Outcome(id=None, name=action.kind, ok=False, error=f"{type(error).__name__}: {error}")]
        self._follower.refresh(list(action.ids))
        self.post_message(self.ActionEnded(action, outcomes))

    def on_board_app_action_ended(self, message: ActionEnded) -> None:
        """Tell what became of an action."""
        done = [outcome for outcome in message.outcomes if outcome.ok]
        if message.action.kind == DESTROY and done:
            self._destroyed_ids = tuple(outcome.id for outcome in done if outcome.id)
        if message.action.kind == UNDESTROY and done:
            self._destroyed_ids = ()
        if done:
            notes = "; ".join(note for outcome in done for note in outcome.notes)
            names = format_names(done)
            self._add_news(f"{DONE_WORDS[message.action.kind]} {names}{f' ({notes})' if notes else ''}")
        for outcome in message.outcomes:
            if not outcome.ok:
                self._add_news(format_failure(outcome))
        if len(done) == len(message.outcomes):
            self._list.clear_marks()


def _format_news(text: str) -> str:
    """Return a line of the news, with the time."""
    return f"{time.strftime('%H:%M:%S')}  {clean_line(text, 300)}"


def build_filter(text: str) -> Callable[[AgentCard], bool]:
    """Return a predicate for a filter as in `mngr list`, or for a part of a name. Raise MngrError for other text."""
    expression = text.strip()
    if not expression:
        return lambda card: True
    if expression.replace("-", "").replace("_", "").isalnum():
        return lambda card: expression.lower() in card.view.name
    matches = compile_filter(expression, AgentView._fields)

    def is_match(card: AgentCard) -> bool:
        facts = card.facts
        usage: dict[str, object] = {"cost_usd": facts.cost_usd}
        return matches({**card.view.to_dict(), "unpulled": facts.unpulled, "dirty": facts.dirty, "usage": usage})

    return is_match


def choose_theme(colours: str) -> str:
    """Return the theme for the terminal's background, which some terminals name in COLORFGBG."""
    background = colours.rpartition(";")[2]
    return "textual-light" if background in ("7", "15") else "textual-dark"
