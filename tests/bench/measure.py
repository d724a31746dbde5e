"""Times of floor and subject, taken in turns, and how they compare."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def seconds(act: Callable[[], object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


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
        """Take both in turns, after one round that does not count."""
        for number in range(rounds + 1):
            pair = floor(), subject()
            if number:
                self.add(*pair)
        return self

    @property
    def limit(self) -> float:
        return min(self.floors) * (self.times or 1.0) + self.more

    def show(self) -> str:
        """One line; what counts is the fastest of each, for noise only ever adds."""
        floor, subject = min(self.floors), min(self.subjects)
        middle = statistics.median(self.subjects) / statistics.median(self.floors)
        wanted = [
            f"{self.times:g} x" if self.times else "",
            f"{self.more * 1000:g} ms more" if self.more else "",
        ]
        verdict = "PASS" if subject <= self.limit else "OVER"
        return (
            f"{self.name:44} {floor * 1000:9.1f} {subject * 1000:9.1f} {subject / floor:7.2f} {middle:7.2f}"
            f" {(subject - floor) * 1000:9.1f}   {' + '.join(w for w in wanted if w):18} {verdict}"
        )


@dataclass
class Delay:
    """A promise: what happened is seen within `limit` seconds, every time."""

    name: str
    limit: float
    delays: list[float] = field(default_factory=list)

    def show(self) -> str:
        """One line; here the slowest counts, for somebody waits."""
        middle, most = statistics.median(self.delays) * 1000, max(self.delays) * 1000
        verdict = "PASS" if most <= self.limit * 1000 else "OVER"
        said = f"median {middle:.0f} ms, at most {most:.0f} ms of {len(self.delays)}"
        return f"{self.name:44} {said:47}   {f'{self.limit * 1000:g} ms':18} {verdict}"


HEAD = f"{'':44} {'floor ms':>9} {'mngr ms':>9} {'ratio':>7} {'median':>7} {'more ms':>9}   limit"
