"""A run on one screen, at any number of agents: drawn over itself, at most a few times a second."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

from mngr.cli.pipeline import line_of
from mngr.cli.render import columns, fit, size
from mngr.clock import parse_stamp
from mngr.mapreduce import rent
from mngr.mapreduce.state import RunState, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PACE = 0.25  # seconds between two pictures
_NEWEST = 5  # lines of what happened last
_ALERTS = 3  # lines of what somebody should look at
_ALERT = ("alert", "alarm", "alarm_over", "window", "held", "launch_failed", "pull_failed", "release_failed")
_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_BAR = 30


class Screen:
    """Hears rows and draws; a thread of its own keeps the clock going. `rows` are those of a run that goes on."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._state = RunState(tasks={}, facts={}, alerts=[], hosts={})
        self._news: dict[bool, list[str]] = {False: [], True: []}  # what happened; what is an alert
        self._lines: list[str] = []  # on the screen now
        self._began = time.time()
        self._paced: tuple[float, int] | None = None  # since when, and how many were settled then
        self._guard = threading.Lock()
        self._done = threading.Event()
        for row in rows:
            self.add(row)
        if rows:
            self._began = time.time()
            self._paced = self._began, len(self._state.in_state("settled"))
        threading.Thread(target=self._draw_on, daemon=True).start()

    def add(self, row: dict[str, Any]) -> None:
        """One more row of the journal."""
        with self._guard:
            self._state = step(self._state, row)
            at = parse_stamp(row["at"])
            self._began = at if row["type"] == "resumed" else min(self._began, at)
            if row["type"] == "resumed" or (row["type"] == "launch" and self._paced is None):
                self._paced = at, len(self._state.in_state("settled"))
            text = line_of(row)
            if text:
                kind = row["type"] in _ALERT
                self._news[kind] = [*self._news[kind], text][-(_ALERTS if kind else _NEWEST) :]

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
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

    def _draw_on(self) -> None:
        while not self._done.wait(_PACE):
            self._draw()

    def _draw(self) -> None:
        with self._guard:
            if self._done.is_set():
                return
            wide, high = size()
            lines = [fit(line, wide - 1) for line in self._picture(wide)[: high - 1]]
            rows = sum(
                1 + max(0, columns(line) - 1) // wide for line in self._lines
            )  # it may be narrower now
            over = f"\x1b[{rows}F" if rows else ""
            sys.stderr.write(over + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
            sys.stderr.flush()
            self._lines = lines

    def _picture(self, wide: int) -> list[str]:
        tasks = list(self._state.tasks.values())
        head, facts = f"{_clock(time.time() - self._began)}  ", self._state.facts
        if not tasks:
            collected = facts.get("collected")
            if collected is None:
                return [f"{head}collecting tests"]
            return [f"{head}baseline: {len(facts.get('ran', []))} runs of {len(collected[0]['tests'])} tests"]
        settled = self._state.in_state("settled")
        so_far = f"{len(settled)} of {len(tasks)} settled{self._rest(len(settled), len(tasks))}"
        most = min(_BAR, wide - len(head + so_far) - 4)
        done = most * len(settled) // len(tasks)
        bar = f"[{'#' * done}{'.' * (most - done)}] " if most >= 5 else ""
        states = [one.state for one in tasks if one.state != "settled"]
        lines = [
            head + bar + so_far,
            _counts(states, _ORDER),
            _counts([str(one.outcome) for one in settled]),
            self._causes(),
            self._spent(),
        ]
        if self._state.waits is not None:
            lines.append(f"no launches: {self._state.waits}")
        if self._state.open_alarm is not None:
            lines.append(f"ALARM: {self._state.open_alarm['text']}")
        lines += [f"! {line}" for line in self._news[True]]
        lines += self._news[False]
        return [lines[0], *(f"  {line}" for line in lines[1:] if line)]

    def _causes(self) -> str:
        facts = self._state.facts
        causes = [row["cluster"] for row in facts.get("cluster", [])]
        if not causes:
            return ""
        tests = sum(len(cause["tests"]) for cause in causes)
        ends = f"{len(facts.get('base', []))} repaired, {len(facts.get('held', []))} given up"
        return f"{len(causes)} shared cause{'s' * (len(causes) > 1)} of {tests} tests: {ends}"

    def _spent(self) -> str:
        used = [one.usage for one in self._state.tasks.values() if one.usage]
        tokens = sum(int(one.get(key) or 0) for one in used for key in ("input_tokens", "output_tokens"))
        cost = sum(float(one.get("cost_usd") or 0.0) for one in used)
        more = " and what has no known price" if any(one.get("cost_usd") is None for one in used) else ""
        rented = rent.bill(list(self._state.hosts.values()))
        parts = [f"{tokens} tokens, ${cost:.2f}{more}"] if tokens else []
        parts += [f"{rented['running']} of {rented['made']} hosts run"] if rented["made"] else []
        parts += [f"${rented['cost_usd']:.2f} for hosts"] if rented["cost_usd"] is not None else []
        return ", ".join(parts)

    def _rest(self, settled: int, all_: int) -> str:
        """How fast it goes, and how long it will take at that pace."""
        since, before = self._paced or (0.0, settled)
        if settled - before < 3 or settled == all_:
            return ""
        pace = (settled - before) / max(time.time() - since, 0.001)
        return f", {pace * 60:.1f} a minute, {_clock((all_ - settled) / pace)} to go"


def _counts(words: list[str], order: tuple[str, ...] = ()) -> str:
    """How often each, in an order or by the alphabet."""
    return ", ".join(
        f"{number} {word}" for word in order or sorted(set(words)) if (number := words.count(word))
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(max(0, int(seconds)), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
