"""A run on one screen, at any number of agents: drawn over itself, at most a few times a second."""

from __future__ import annotations

import sys
import threading
import time

from mngr.cli.pipeline import line_of
from mngr.cli.render import clean, width
from mngr.mapreduce.state import RunState, step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PACE = 0.25  # seconds between two pictures
_NEWEST = 5  # lines of what happened last
_ORDER = ("queued", "launching", "working", "talking", "parked", "pulling", "checking")
_BAR = 30


class Screen:
    """Hears rows and draws; a thread of its own keeps the clock going."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._state = RunState(tasks={}, facts={}, alerts=[])
        self._news: list[str] = []
        self._ran = 0  # tests of the baseline
        self._lines = 0  # on the screen now
        self._began = time.monotonic()
        self._first_launch: float | None = None
        self._guard = threading.Lock()
        self._done = threading.Event()
        threading.Thread(target=self._draw_on, daemon=True).start()

    def add(self, row: dict[str, Any]) -> None:
        """One more row of the journal."""
        with self._guard:
            self._state = step(self._state, row)
            self._ran += row["type"] == "ran"
            if row["type"] == "launch" and self._first_launch is None:
                self._first_launch = time.monotonic()
            text = line_of(row)
            if text:
                self._news = [*self._news, text][-_NEWEST:]

    def close(self) -> None:
        """The last picture stays."""
        self._done.set()
        self._draw()

    def _draw_on(self) -> None:
        while not self._done.wait(_PACE):
            self._draw()

    def _draw(self) -> None:
        with self._guard:
            lines = [clean(line)[: width() - 1] for line in self._picture()]
            over = f"\x1b[{self._lines}F" if self._lines else ""
            sys.stderr.write(over + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
            sys.stderr.flush()
            self._lines = len(lines)

    def _picture(self) -> list[str]:
        tasks = list(self._state.tasks.values())
        settled = [one for one in tasks if one.state == "settled"]
        spent = time.monotonic() - self._began
        head = f"{_clock(spent)}  "
        if not tasks:
            collected = self._state.facts.get("collected")
            return [
                head
                + (
                    f"baseline: {self._ran} runs of {len(collected[0]['tests'])} tests"
                    if collected
                    else "collecting tests"
                )
            ]
        share = len(settled) / len(tasks)
        bar = "#" * int(share * _BAR) + "." * (_BAR - int(share * _BAR))
        lines = [
            f"{head}[{bar}] {len(settled)} of {len(tasks)} settled{self._rest(len(settled), len(tasks))}"
        ]
        states = {state: sum(one.state == state for one in tasks) for state in _ORDER}
        lines.append("  " + ", ".join(f"{number} {state}" for state, number in states.items() if number))
        outcomes: dict[str, int] = {}
        for one in settled:
            outcomes[str(one.outcome)] = outcomes.get(str(one.outcome), 0) + 1
        lines.append("  " + ", ".join(f"{number} {word}" for word, number in sorted(outcomes.items())))
        cost = sum(float(one.usage.get("cost_usd") or 0.0) for one in tasks)
        tokens = sum(
            int(one.usage.get(key) or 0) for one in tasks for key in ("input_tokens", "output_tokens")
        )
        if tokens:
            lines.append(f"  {tokens} tokens, ${cost:.2f}")
        if self._state.open_alarm is not None:
            lines.append(f"  ALARM: {self._state.open_alarm['text']}")
        return [*lines, *(f"  {line}" for line in self._news)]

    def _rest(self, settled: int, all_: int) -> str:
        """How fast it goes, and how long it will take at that pace."""
        if settled < 3 or self._first_launch is None or settled == all_:
            return ""
        pace = settled / (time.monotonic() - self._first_launch)
        return f", {pace * 60:.1f} a minute, {_clock((all_ - settled) / pace)} to go"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
