"""Draws the progress of a run on one screen, for any number of agents."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

from mngr.cli.framework.terminal_text import count_columns, fit_line, get_terminal_size
from mngr.overview.run_facts import RunTimeline, format_bar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mngr.mapreduce.journal.run_state import JournalRow

_DRAW_INTERVAL = 0.25  # Seconds between two drawings.
_BAR_WIDTH = 30


class ProgressScreen:
    """Collects journal rows and draws them from its own thread. `rows` are the earlier rows of a resumed run."""

    def __init__(self, rows: list[JournalRow]) -> None:
        self._history = RunTimeline(rows, began_at=time.time() if rows else None)
        self._created_at = time.time()
        self._lines: list[str] = []  # The lines that the screen shows now.
        self._guard = threading.Lock()
        self._done = threading.Event()
        threading.Thread(target=self._draw_until_closed, daemon=True).start()

    def add_row(self, row: JournalRow) -> None:
        """Add one more row of the journal."""
        with self._guard:
            self._history.add_row(row)

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
        now = time.time()
        facts = self._history.build_facts(self._created_at)
        head = f"{facts.format_head(now)}  "
        if facts.preparation:
            return [head + facts.preparation]
        progress = facts.format_progress(now)
        bar = format_bar(facts.settled, facts.total, min(_BAR_WIDTH, width - len(head + progress) - 4))
        return [head + (f"{bar} " if bar else "") + progress, *(f"  {line}" for line in facts.list_lines())]
