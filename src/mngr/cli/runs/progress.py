"""A run on one screen, at any number of agents: drawn over itself, at most a few times a second."""

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

_DRAW_INTERVAL = 0.25  # seconds between two pictures
_RECENT_LINES = 5  # lines of what happened last
_ALERT_LINES = 3  # lines of what somebody should look at
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
_STATE_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_BAR_WIDTH = 30


class ProgressScreen:
    """Hears rows and draws; a thread of its own keeps the clock going. `rows` are those of a run that goes on."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._state = RunState(tasks={}, recipe_rows={}, alerts=[], hosts={})
        self._news: dict[bool, list[str]] = {False: [], True: []}  # what happened; what is an alert
        self._lines: list[str] = []  # on the screen now
        self._began = time.time()
        self._paced: tuple[float, int] | None = None  # since when, and how many were settled then
        self._guard = threading.Lock()
        self._done = threading.Event()
        for row in rows:
            self.add_row(row)
        if rows:
            self._began = time.time()
            self._paced = self._began, len(self._state.list_in_state("settled"))
        threading.Thread(target=self._draw_until_closed, daemon=True).start()

    def add_row(self, row: dict[str, Any]) -> None:
        """One more row of the journal."""
        with self._guard:
            self._state = apply_row(self._state, row)
            at = parse_timestamp(row["at"])
            self._began = at if row["type"] == "resumed" else min(self._began, at)
            if row["type"] == "resumed" or (row["type"] == "launch" and self._paced is None):
                self._paced = at, len(self._state.list_in_state("settled"))
            text = format_row(row)
            if text:
                kind = row["type"] in _ALERT_EVENTS
                self._news[kind] = [*self._news[kind], text][-(_ALERT_LINES if kind else _RECENT_LINES) :]

    @contextlib.contextmanager
    def release_terminal(self) -> Iterator[None]:
        """The terminal is somebody else's meanwhile; the next picture comes below."""
        with self._guard:
            try:
                yield
            finally:
                self._lines = []

    def close(self) -> None:
        """The last picture stays."""
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
            wide, high = get_terminal_size()
            lines = [fit_line(line, wide - 1) for line in self._render_lines(wide)[: high - 1]]
            rows = sum(1 + max(0, count_columns(line) - 1) // wide for line in self._lines)  # it may be narrower now
            over = f"\x1b[{rows}F" if rows else ""
            sys.stderr.write(over + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
            sys.stderr.flush()
            self._lines = lines

    def _render_lines(self, wide: int) -> list[str]:
        tasks = list(self._state.tasks.values())
        head, facts = f"{_format_duration(time.time() - self._began)}  ", self._state.recipe_rows
        if not tasks:
            collected = facts.get("collected")
            if collected is None:
                return [f"{head}collecting tests"]
            return [f"{head}baseline: {len(facts.get('ran', []))} runs of {len(collected[0]['tests'])} tests"]
        settled = self._state.list_in_state("settled")
        so_far = f"{len(settled)} of {len(tasks)} settled{self._format_remaining_time(len(settled), len(tasks))}"
        most = min(_BAR_WIDTH, wide - len(head + so_far) - 4)
        done = most * len(settled) // len(tasks)
        bar = f"[{'#' * done}{'.' * (most - done)}] " if most >= 5 else ""
        states = [one.state for one in tasks if one.state != "settled"]
        lines = [
            head + bar + so_far,
            _format_counts(states, _STATE_ORDER),
            _format_counts([str(one.outcome) for one in settled]),
            self._format_root_causes(),
            self._format_cost(),
        ]
        if self._state.wait_reason is not None:
            lines.append(f"no launches: {self._state.wait_reason}")
        if self._state.open_alarm is not None:
            lines.append(f"ALARM: {self._state.open_alarm['text']}")
        lines += [f"! {line}" for line in self._news[True]]
        lines += self._news[False]
        return [lines[0], *(f"  {line}" for line in lines[1:] if line)]

    def _format_root_causes(self) -> str:
        facts = self._state.recipe_rows
        causes = [row["cluster"] for row in facts.get("cluster", [])]
        if not causes:
            return ""
        tests = sum(len(cause["tests"]) for cause in causes)
        ends = f"{len(facts.get('base', []))} repaired, {len(facts.get('held', []))} given up"
        return f"{len(causes)} shared cause{'s' * (len(causes) > 1)} of {tests} tests: {ends}"

    def _format_cost(self) -> str:
        used = [one.usage for one in self._state.tasks.values() if one.usage]
        tokens = sum(int(one.get(key) or 0) for one in used for key in ("input_tokens", "output_tokens"))
        cost = sum(float(one.get("cost_usd") or 0.0) for one in used)
        more = " and what has no known price" if any(one.get("cost_usd") is None for one in used) else ""
        rented = host_costs.summarize_costs(list(self._state.hosts.values()))
        parts = [f"{tokens} tokens, ${cost:.2f}{more}"] if tokens else []
        parts += [f"{rented['running']} of {rented['made']} hosts run"] if rented["made"] else []
        parts += [f"${rented['cost_usd']:.2f} for hosts"] if rented["cost_usd"] is not None else []
        return ", ".join(parts)

    def _format_remaining_time(self, settled: int, all_: int) -> str:
        """How fast it goes, and how long it will take at that pace."""
        since, before = self._paced or (0.0, settled)
        if settled - before < 3 or settled == all_:
            return ""
        pace = (settled - before) / max(time.time() - since, 0.001)
        return f", {pace * 60:.1f} a minute, {_format_duration((all_ - settled) / pace)} to go"


def _format_counts(words: list[str], order: tuple[str, ...] = ()) -> str:
    """How often each, in an order or by the alphabet."""
    return ", ".join(f"{number} {word}" for word in order or sorted(set(words)) if (number := words.count(word)))


def _format_duration(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def format_row(row: dict[str, Any]) -> str | None:
    kind, slug = row["type"], row.get("slug")
    if kind == "standing":
        counts = ", ".join(f"{number} {word}" for word, number in row["counts"].items())
        return f"{row['tests']} tests, untouched: {counts or 'none was run'}; {row['skipped']} skipped; {row['causes']} shared causes"
    if kind == "cluster":
        return f"{row['cluster']['id']}: {len(row['cluster']['tests'])} tests fail alike: {row['cluster']['title']}"
    if kind == "base":
        return f"later tasks start with the fix of {row['by']}" if row["added"] else None
    if kind == "held":
        return f"{row['cause']}: not repaired, which leaves {len(row['tests'])} tests: {row['why']}"
    if kind == "launched":
        return f"{slug}: runs on {row['host']}"
    if kind == "launch_failed":
        return f"{slug}: {row['stage']} failed ({row['cause']}): {row['error']}"
    if kind == "pull_failed":
        return f"{slug}: its work could not be fetched, and will be tried again: {row['error']}"
    if kind == "prepare":
        return f"a host of {row['provider']} is being prepared, which all others are made from"
    if kind == "released" and row["agents"]:
        return f"{row['host']}: given back; mngr undestroy brings each of its {len(row['agents'])} agents back"
    if kind == "release_failed":
        return f"{row['host']}: could not be given back, and will be tried again: {row['error']}"
    if kind == "remind":
        return f"{slug}: reminded ({row['why']})"
    if kind == "parked":
        until = f" until {row['until']}" if row.get("until") else ""
        return f"{slug}: parked: {row['reason']}{until}"
    if kind == "settled":
        return f"{slug}: {row['outcome']}" + (f": {row['reason']}" if row.get("reason") else "")
    if kind in ("alert", "alarm", "alarm_over"):
        return f"{'ALARM: ' if kind == 'alarm' else ''}{row['text']}"
    if kind == "window":
        return f"{row['why']}: at most {row['size']} at once from now on"
    return None
