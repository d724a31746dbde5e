"""A run that is opened: its progress, root causes, cost, alerts and tasks."""

from __future__ import annotations

import time

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer, Static

from mngr.base.size_format import format_count
from mngr.board.line_view import LineView
from mngr.overview.follow_runs import RunCard, RunTask
from mngr.overview.run_facts import format_bar
from mngr.overview.untrusted_text import clean_line

_BAR_WIDTH = 30
_OUTCOME_STYLES = {"failed": "red", "refuted": "red", "blocked": "yellow", "flaky": "yellow"}
_CAUSE_STYLES = {"open": "yellow", "repaired": "green", "not repaired": "red"}
_REFRESH_SECONDS = 1.0


class RunScreen(Screen[None]):
    """Shows one run until a person closes it."""

    DEFAULT_CSS = "RunScreen > Static { height: 1; text-style: bold; }"
    BINDINGS = [Binding("escape,q,enter", "close", "Back to the board")]

    def __init__(self, run: RunCard) -> None:
        super().__init__()
        self.run = run

    def compose(self) -> ComposeResult:
        """Create the heading and the lines."""
        yield Static(id="run-title", markup=False)
        yield LineView(id="run-lines")
        yield Footer()

    def on_mount(self) -> None:
        """Show the run, and keep its clock going while it runs."""
        self.show_run(self.run)
        self.set_interval(_REFRESH_SECONDS, self._tick)
        self.query_one(LineView).focus()

    def _tick(self) -> None:
        if self.run.state == "running":
            self.show_run(self.run)

    def show_run(self, run: RunCard) -> None:
        """Show the present facts of the run."""
        self.run = run
        self.query_one("#run-title", Static).update(Text(f"run {run.name}: {run.state}"))
        self.query_one(LineView).show_lines(build_run_lines(run, time.time()))

    def action_close(self) -> None:
        """Return to the board."""
        self.dismiss(None)


def build_run_lines(run: RunCard, now: float) -> list[Text]:
    """Return the lines about a run: the same facts as the progress screen shows, and all tasks."""
    facts = run.facts
    lines = []
    if facts.preparation:
        lines.append(Text(clean_line(facts.preparation)))
    else:
        bar = format_bar(facts.settled, facts.total, _BAR_WIDTH)
        progress = f"{bar} {facts.settled} of {facts.total} tasks finished"
        if run.state == "running":  # Only such a run has a pace.
            progress = f"{facts.format_head(now)}  {bar} {facts.format_progress(now)}"
        lines.append(Text(progress, style="bold"))
    if run.damaged_rows:
        lines.append(Text(f"{run.damaged_rows} rows of the journal are damaged and left out", style="red"))
    for text in facts.list_lines():
        style = "bold red" if text.startswith("ALARM") else "yellow" if text.startswith("!") else ""
        lines.append(Text(f"  {clean_line(text)}", style=style))
    if run.budget_usd is not None:
        lines.append(Text(f"  budget in the plan: ${run.budget_usd:.2f}"))
    if facts.causes:
        lines += [Text(), Text("root causes", style="bold")]
    for cause in facts.causes:
        words = f"  {cause.state:<12} {format_count(cause.tests, 'test')}: {clean_line(cause.title, 200)}"
        lines.append(Text(words, style=_CAUSE_STYLES[cause.state]))
    if run.tasks:
        lines += [Text(), Text(f"tasks ({len(run.tasks)})", style="bold")]
    return lines + [_build_task_line(task) for task in run.tasks]


def _build_task_line(task: RunTask) -> Text:
    """Return a task with its state or outcome, its cost and the reason."""
    word = task.outcome or task.state
    line = Text(f"  {clean_line(word, 12):<12} ", style=_OUTCOME_STYLES.get(word, ""), no_wrap=True)
    cost = "" if task.cost_usd is None else f"${task.cost_usd:.2f}"
    line.append(f"{cost:>7}  {clean_line(task.title, 200)}", "not bold")
    if task.reason:
        line.append(f"  {clean_line(task.reason, 200)}", "dim")
    return line
