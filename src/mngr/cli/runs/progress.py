"""Draws the progress of a run on one screen, for any number of agents."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

from mngr.base.clock import parse_timestamp
from mngr.cli.framework.terminal_text import count_columns, fit_line, get_terminal_size
from mngr.mapreduce import host_costs
from mngr.mapreduce.run_state import RunState, apply_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_DRAW_INTERVAL = 0.25  # Seconds between two drawings.
_RECENT_LINES = 5  # Lines for the latest events.
_ALERT_LINES = 3  # Lines for the latest alerts.
_ALERT_EVENTS = (
    "alert",
    "alarm",
    "alarm_over",
    "window",
    "held",
    "launch_failed",
    "pull_failed",
    "release_failed",
)
# The line for each type of row that needs no more than its fields.
_ROW_TEMPLATES = {
    "launched": "{slug}: runs on {host}",
    "launch_failed": "{slug}: {stage} failed ({cause}): {error}",
    "pull_failed": "{slug}: its work could not be fetched, and will be tried again: {error}",
    "remind": "{slug}: reminded ({why})",
    "prepare": "a host of {provider} is being prepared, which all others are made from",
    "release_failed": "{host}: could not be given back, and will be tried again: {error}",
    "alert": "{text}",
    "alarm": "ALARM: {text}",
    "alarm_over": "{text}",
    "window": "{why}: at most {size} at once from now on",
}
_STATE_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_BAR_WIDTH = 30


class ProgressScreen:
    """Collects journal rows and draws them from its own thread. `rows` are the earlier rows of a resumed run."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._state = RunState(tasks={}, recipe_rows={}, alerts=[], hosts={})
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
            self._paced = self._began, len(self._state.list_in_state("settled"))
        threading.Thread(target=self._draw_until_closed, daemon=True).start()

    def add_row(self, row: dict[str, Any]) -> None:
        """Add one more row of the journal."""
        with self._guard:
            self._state = apply_row(self._state, row)
            timestamp = parse_timestamp(row["at"])
            self._began = timestamp if row["type"] == "resumed" else min(self._began, timestamp)
            if row["type"] == "resumed" or (row["type"] == "launch" and self._paced is None):
                self._paced = timestamp, len(self._state.list_in_state("settled"))
            text = format_row(row)
            if text:
                is_alert = row["type"] in _ALERT_EVENTS
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
        head, recipe_rows = f"{_format_duration(time.time() - self._began)}  ", self._state.recipe_rows
        if not tasks:
            collected = recipe_rows.get("collected")
            if collected is None:
                return [f"{head}collecting tests"]
            return [f"{head}baseline: {len(recipe_rows.get('ran', []))} runs of {len(collected[0]['tests'])} tests"]
        settled = self._state.list_in_state("settled")
        progress = f"{len(settled)} of {len(tasks)} settled{self._format_remaining_time(len(settled), len(tasks))}"
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
            lines.append(f"no launches: {self._state.wait_reason}")
        if self._state.open_alarm is not None:
            lines.append(f"ALARM: {self._state.open_alarm.text}")
        lines += [f"! {line}" for line in self._news[True]]
        lines += self._news[False]
        return [lines[0], *(f"  {line}" for line in lines[1:] if line)]

    def _format_root_causes(self) -> str:
        """Return a line on the root causes and how many of them are repaired."""
        recipe_rows = self._state.recipe_rows
        root_causes = [row["cluster"] for row in recipe_rows.get("cluster", [])]
        if not root_causes:
            return ""
        tests = sum(len(root_cause["tests"]) for root_cause in root_causes)
        results = f"{len(recipe_rows.get('base', []))} repaired, {len(recipe_rows.get('held', []))} given up"
        return f"{len(root_causes)} shared cause{'s' * (len(root_causes) > 1)} of {tests} tests: {results}"

    def _format_cost(self) -> str:
        """Return a line on tokens, cost and hosts."""
        usages = [task.usage for task in self._state.tasks.values() if task.usage]
        tokens = sum(int(usage.get(key) or 0) for usage in usages for key in ("input_tokens", "output_tokens"))
        cost = sum(float(usage.get("cost_usd") or 0.0) for usage in usages)
        unpriced_note = " and what has no known price" if any(usage.get("cost_usd") is None for usage in usages) else ""
        hosts = host_costs.summarize_costs(list(self._state.hosts.values()))
        parts = [f"{tokens} tokens, ${cost:.2f}{unpriced_note}"] if tokens else []
        parts += [f"{hosts['running']} of {hosts['made']} hosts run"] if hosts["made"] else []
        parts += [f"${hosts['cost_usd']:.2f} for hosts"] if hosts["cost_usd"] is not None else []
        return ", ".join(parts)

    def _format_remaining_time(self, settled: int, total: int) -> str:
        """Return the pace and the estimated remaining time, or nothing before three tasks are settled."""
        start_time, settled_at_start = self._paced or (0.0, settled)
        if settled - settled_at_start < 3 or settled == total:
            return ""
        pace = (settled - settled_at_start) / max(time.time() - start_time, 0.001)
        return f", {pace * 60:.1f} a minute, {_format_duration((total - settled) / pace)} to go"


def _format_counts(words: list[str], order: tuple[str, ...] = ()) -> str:
    """Return how often each word occurs, in the given order or alphabetically."""
    return ", ".join(f"{number} {word}" for word in order or sorted(set(words)) if (number := words.count(word)))


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def format_row(row: dict[str, Any]) -> str | None:
    """Return a journal row as one line for people, or None if it is not worth a line."""
    kind, slug = row["type"], row.get("slug")
    if kind in _ROW_TEMPLATES:
        return _ROW_TEMPLATES[kind].format_map(row)
    if kind == "standing":
        return _format_baseline(row)
    if kind == "cluster":
        root_cause = row["cluster"]
        return f"{root_cause['id']}: {len(root_cause['tests'])} tests fail alike: {root_cause['title']}"
    if kind == "base":
        return f"later tasks start with the fix of {row['by']}" if row["added"] else None
    if kind == "held":
        return f"{row['cause']}: not repaired, which leaves {len(row['tests'])} tests: {row['why']}"
    if kind == "released" and row["agents"]:
        return f"{row['host']}: given back; mngr undestroy brings each of its {len(row['agents'])} agents back"
    if kind == "parked":
        until = f" until {row['until']}" if row.get("until") else ""
        return f"{slug}: parked: {row['reason']}{until}"
    if kind == "settled":
        reason = f": {row['reason']}" if row.get("reason") else ""
        return f"{slug}: {row['outcome']}{reason}"
    return None


def _format_baseline(row: dict[str, Any]) -> str:
    """Return a line on how the tests ended before any change."""
    counts = ", ".join(f"{number} {word}" for word, number in row["counts"].items()) or "none was run"
    return f"{row['tests']} tests, untouched: {counts}; {row['skipped']} skipped; {row['causes']} shared causes"
