"""Compares the times of a floor and a subject, which are measured in turns."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def cpu_seconds(action: Callable[[], object]) -> float:
    """Return the CPU time of an action, with all processes that it starts and awaits. Other programs do not change it."""
    start = _measure_cpu()
    action()
    return _measure_cpu() - start


def _measure_cpu() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass
class Case:
    """A promise: the subject costs at most `times` the floor, or at most `more` seconds above it."""

    name: str
    times: float | None = None
    more: float = 0.0
    floors: list[float] = field(default_factory=list)
    subjects: list[float] = field(default_factory=list)

    def add(self, floor: float, subject: float) -> None:
        self.floors.append(floor)
        self.subjects.append(subject)

    def alternate(self, floor: Callable[[], float], subject: Callable[[], float], rounds: int) -> Case:
        """Measure both in turns, after one round that does not count."""
        for number in range(rounds + 1):
            pair = floor(), subject()
            if number:
                self.add(*pair)
        return self

    @property
    def limit(self) -> float:
        return min(self.floors) * (self.times or 1.0) + self.more

    def show(self) -> str:
        """Return one line. The fastest time of each counts, because noise only adds time."""
        floor, subject = min(self.floors), min(self.subjects)
        median_ratio = statistics.median(self.subjects) / statistics.median(self.floors)
        limits = [
            f"{self.times:g} x" if self.times else "",
            f"{self.more * 1000:g} ms more" if self.more else "",
        ]
        verdict = "PASS" if subject <= self.limit else "OVER"
        return (
            f"{self.name:44} {floor * 1000:9.1f} {subject * 1000:9.1f} {subject / floor:7.2f} {median_ratio:7.2f}"
            f" {(subject - floor) * 1000:9.1f}   {' + '.join(w for w in limits if w):18} {verdict}"
        )


@dataclass
class Delay:
    """A promise: an event is seen within `limit` seconds, every time."""

    name: str
    limit: float
    delays: list[float] = field(default_factory=list)

    def show(self) -> str:
        """Return one line. The slowest time counts, because a person waits for it."""
        median, slowest = statistics.median(self.delays) * 1000, max(self.delays) * 1000
        verdict = "PASS" if slowest <= self.limit * 1000 else "OVER"
        text = f"median {median:.0f} ms, at most {slowest:.0f} ms of {len(self.delays)}"
        return f"{self.name:44} {text:47}   {f'{self.limit * 1000:g} ms':18} {verdict}"


HEAD = f"{'':44} {'floor ms':>9} {'mngr ms':>9} {'ratio':>7} {'median':>7} {'more ms':>9}   limit"
