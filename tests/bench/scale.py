"""Measures what a run costs the orchestrator itself, with simulated agents and hosts: time, memory, journal, status.

Time is processor time, because the agents cost nothing and other programs must not count.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import Delay
from tests.bench.simulated_run import make_project
from tests.bench.world import World
from tests.support.paths import ROOT

_COUNTS = (1_000, 3_000, 10_000)  # tasks
_MAX_GROWTH = 1.3  # how much more a task may cost in the largest run than in the smallest
_MAX_JOURNAL_BYTES = 5 * 1024  # for each task
_MAX_RESUME_SECONDS = 5.0
_MAX_STATUS_SECONDS = 1.0


@dataclass(frozen=True)
class SimulatedRun:
    """What one process of a run measured."""

    count: int
    processor_seconds: float
    first_launch: float  # seconds until the process launched its first agent
    memory: int  # bytes
    journal: int  # bytes
    confirmed: int  # tasks with a confirmed receipt

    def show(self) -> str:
        """Return one line."""
        return (
            f"{f'a run of {self.count} simulated agents':44} {self.processor_seconds / self.count * 1e3:.2f} ms, "
            f"{self.memory / self.count / 1024:.1f} KB of memory and {self.journal / self.count / 1024:.1f} KB of journal per task"
        )


@dataclass(frozen=True)
class Bound:
    """A promise: a number is at most `limit`."""

    name: str
    value: float
    limit: float
    unit: str

    def show(self) -> str:
        """Return one line."""
        verdict = "PASS" if self.value <= self.limit else "OVER"
        return f"{self.name:44} {f'{self.value:.2f} {self.unit}':47}   {f'{self.limit:g} {self.unit}':18} {verdict}"


def scale(world: World, counts: tuple[int, ...] = _COUNTS) -> Iterator[SimulatedRun | Bound | Delay]:
    """Measure runs of several sizes. Kill and resume the largest run, and ask for its status."""
    runs = []
    for count in counts:
        root = world.root / f"scale-{count}"
        make_project(root, count)
        if count == counts[-1]:
            _run_simulation(world, root, count, count // 2)
            resumed = _run_simulation(world, root, count)
            assert resumed is not None
            yield Bound(f"resume of {count} tasks, until it launches", resumed.first_launch, _MAX_RESUME_SECONDS, "s")
            yield _measure_status(world, root, count)
            root = world.root / f"scale-{count}-again"
            make_project(root, count)
        run = _run_simulation(world, root, count)
        assert run is not None
        if run.confirmed != count:
            raise SystemExit(f"{run.confirmed} of {count} tasks are confirmed")
        runs.append(run)
        yield run
    first, last = runs[0], runs[-1]
    times, memory = (
        (last.processor_seconds / last.count) / (first.processor_seconds / first.count),
        (last.memory / last.count) / (first.memory / first.count),
    )
    yield Bound(f"time per task, {last.count} against {first.count} tasks", times, _MAX_GROWTH, "x")
    yield Bound(f"memory per task, {last.count} against {first.count} tasks", memory, _MAX_GROWTH, "x")
    yield Bound("journal per task", last.journal / last.count / 1024, _MAX_JOURNAL_BYTES / 1024, "KB")


def _run_simulation(world: World, root: Path, count: int, stop_after: int = 0) -> SimulatedRun | None:
    """Run or continue a simulated run. Return what it measured, or None if it was killed after `stop_after` tasks."""
    env = {**world.env, "MNGR_HOME": f"{root}-home"}  # the name of a run is unique in a home
    argv = [sys.executable, "-m", "tests.bench.simulated_run", str(root), str(count), str(stop_after)]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != (9 if stop_after else 0):
        raise SystemExit(f"exit {done.returncode}: {done.stderr[-2000:]}")
    return None if stop_after else SimulatedRun(count=count, **json.loads(done.stdout))


def _measure_status(world: World, root: Path, count: int) -> Delay:
    delays = [
        world.mngr("tmr", "status", "--format", "json", cwd=root, env={"MNGR_HOME": f"{root}-home"}) for _ in range(5)
    ]
    return Delay(f"tmr status of {count} tasks", _MAX_STATUS_SECONDS, delays)
