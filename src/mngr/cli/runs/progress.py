"""Draws the progress of a run on one screen, for any number of agents."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

from mngr.base.size_format import format_count
from mngr.base.time_format import parse_timestamp
from mngr.cli.framework.terminal_text import count_columns, fit_line, get_terminal_size
from mngr.mapreduce.journal import host_costs
from mngr.mapreduce.journal.host_rows import ReleaseFailedRow
from mngr.mapreduce.journal.journal_rows import (
    LaunchFailedRow,
    LaunchRow,
    MessageRow,
    PullFailedRow,
    ResumedRow,
    WindowRow,
)
from mngr.mapreduce.journal.replay import Replay
from mngr.mapreduce.journal.run_state import JournalRow, RecipeRow, RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DRAW_INTERVAL = 0.25  # Seconds between two drawings.
_RECENT_LINES = 5  # Lines for the latest events.
_ALERT_LINES = 3  # Lines for the latest alerts.
_ALERT_ROWS = (MessageRow, WindowRow, LaunchFailedRow, PullFailedRow, ReleaseFailedRow)
_STATE_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_BAR_WIDTH = 30


class ProgressScreen:
    """Collects journal rows and draws them from its own thread. `rows` are the earlier rows of a resumed run."""

    def __init__(self, rows: list[JournalRow]) -> None:
        self._replay = Replay()
        self._news: dict[bool, list[str]] = {False: [], True: []}  # The latest events (False) and alerts (True).
        self._lines: list[str] = []  # The lines that the screen shows now.
        self._began = time.time()
        self._paced: tuple[float, int] | None = None  # When the pace measurement began, and the settled tasks then.
        self._guard = threading.Lock()
        self._done = threading.Event()
        for row in rows:
            self.add_row(row)
        if rows:
            self._began = time.time()
            self._paced = self._began, self._state.tasks.count_in_state("settled")
        threading.Thread(target=self._draw_until_closed, daemon=True).start()

    @property
    def _state(self) -> RunState:
        return self._replay.state

    def add_row(self, row: JournalRow) -> None:
        """Add one more row of the journal."""
        with self._guard:
            self._replay.add(row)
            is_resumed = isinstance(row, ResumedRow)
            timestamp = parse_timestamp(row.at)
            self._began = timestamp if is_resumed else min(self._began, timestamp)
            if is_resumed or (isinstance(row, LaunchRow) and self._paced is None):
                self._paced = timestamp, self._state.tasks.count_in_state("settled")
            text = format_row(row)
            if text:
                is_alert = _is_alert(row)
                self._news[is_alert] = [*self._news[is_alert], text][-(_ALERT_LINES if is_alert else _RECENT_LINES) :]

    @contextlib.contextmanager
    def release_terminal(self) -> Iterator[None]:
        """Stop drawing while the block uses the terminal; the next drawing appears below."""
        with self._guard:
            try:
                yield
            finally:
                self._lines = []

    def close(self) -> None:
        """Draw a last time, and leave that drawing on the screen."""
        self._draw()
        with self._guard:
            self._done.set()

    def _draw_until_closed(self) -> None:
        while not self._done.wait(_DRAW_INTERVAL):
            self._draw()

    def _draw(self) -> None:
        with self._guard:
            if self._done.is_set():
                return
            width, height = get_terminal_size()
            lines = [fit_line(line, width - 1) for line in self._render_lines(width)[: height - 1]]
            rows = sum(
                1 + max(0, count_columns(line) - 1) // width for line in self._lines
            )  # The terminal may be narrower now.
            move_up = f"\x1b[{rows}F" if rows else ""
            sys.stderr.write(move_up + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
            sys.stderr.flush()
            self._lines = lines

    def _render_lines(self, width: int) -> list[str]:
        """Return the lines to draw: the progress bar, counts, costs, alerts and latest events."""
        tasks = list(self._state.tasks.values())
        head = f"{_format_duration(time.time() - self._began)}  "
        if not tasks:
            return [f"{head}{self._format_baseline()}"]
        settled = self._state.list_in_state("settled")
        progress = (
            f"{len(settled)} of {len(tasks)} tasks finished{self._format_remaining_time(len(settled), len(tasks))}"
        )
        bar_width = min(_BAR_WIDTH, width - len(head + progress) - 4)
        filled = bar_width * len(settled) // len(tasks)
        bar = f"[{'#' * filled}{'.' * (bar_width - filled)}] " if bar_width >= 5 else ""
        states = [task.state for task in tasks if task.state != "settled"]
        lines = [
            head + bar + progress,
            _format_counts(states, _STATE_ORDER),
            _format_counts([str(task.outcome) for task in settled]),
            self._format_root_causes(),
            self._format_cost(),
        ]
        if self._state.wait_reason is not None:
            lines.append(f"no new agents: {self._state.wait_reason}")
        if self._state.open_alarm is not None:
            lines.append(f"ALARM: {self._state.open_alarm.text}")
        lines += [f"! {line}" for line in self._news[True]]
        lines += self._news[False]
        return [lines[0], *(f"  {line}" for line in lines[1:] if line)]

    def _format_baseline(self) -> str:
        """Return how far the baseline is."""
        from mngr.tmr.prepare.baseline_rows import BaselineRun, TestsCollected, list_facts

        collected = list_facts(self._state, TestsCollected)
        if not collected:
            return "collecting tests"
        run_count = len(self._state.recipe_rows.get(BaselineRun.type_name, ()))
        return (
            f"baseline: {format_count(run_count, 'test run')} so far, {format_count(len(collected[0].tests), 'test')}"
        )

    def _format_root_causes(self) -> str:
        """Return a line on the root causes and how many of them are repaired."""
        from mngr.tmr.prepare.baseline_rows import BaseMoved, RootCauseFound, RootCauseGivenUp, list_facts

        found = list_facts(self._state, RootCauseFound)
        if not found:
            return ""
        test_count = sum(len(fact.root_cause.tests) for fact in found)
        repaired = len(list_facts(self._state, BaseMoved))
        given_up = len(list_facts(self._state, RootCauseGivenUp))
        return f"{format_count(len(found), 'root cause')}, shared by {format_count(test_count, 'test')}: {repaired} repaired, {given_up} not repaired"

    def _format_cost(self) -> str:
        """Return a line on tokens, cost and hosts."""
        usages = [task.usage for task in self._state.tasks.values() if task.usage is not None]
        tokens = sum(usage.tokens for usage in usages)
        cost = sum(usage.cost_usd or 0.0 for usage in usages)
        unpriced_note = " plus tokens without a known price" if any(usage.cost_usd is None for usage in usages) else ""
        hosts = host_costs.summarize_costs(self._state.hosts.values())
        parts = [f"{tokens} tokens, ${cost:.2f}{unpriced_note}"] if tokens else []
        if hosts.made:
            parts.append(f"{hosts.running} of {hosts.made} hosts running")
        if hosts.cost_usd is not None:
            parts.append(f"${hosts.cost_usd:.2f} for hosts")
        return ", ".join(parts)

    def _format_remaining_time(self, settled: int, total: int) -> str:
        """Return the pace and the estimated remaining time, or nothing before three tasks are settled."""
        start_time, settled_at_start = self._paced or (0.0, settled)
        if settled - settled_at_start < 3 or settled == total:
            return ""
        pace = (settled - settled_at_start) / max(time.time() - start_time, 0.001)
        return f", {pace * 60:.1f} per minute, about {_format_duration((total - settled) / pace)} left"


def _format_counts(words: list[str], order: tuple[str, ...] = ()) -> str:
    """Return how often each word occurs, in the given order or alphabetically."""
    return ", ".join(f"{number} {word}" for word in order or sorted(set(words)) if (number := words.count(word)))


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def format_row(row: JournalRow) -> str:
    """Return a journal row as one line for people, or an empty text if it is not worth a line."""
    if not isinstance(row, RecipeRow):
        return row.describe()
    from mngr.tmr.prepare.baseline_rows import describe_row

    return describe_row(row)


def _is_alert(row: JournalRow) -> bool:
    """True when the row stays on the screen longer than others."""
    return isinstance(row, _ALERT_ROWS) or (isinstance(row, RecipeRow) and row.type == "root_cause_unrepaired")
