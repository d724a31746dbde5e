"""Measures the integration of a hundred branches: time beyond the tests, number of test runs, and a second attempt."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import Case
from tests.bench.world import BIN, World
from tests.support.own_runs import adopt_run
from tests.support.reduce_judge import judge
from tests.support.reduce_world import PYTEST, make_world

WORDS = "tmr integrate r -q --format json"


@dataclass
class Count:
    """A promise: something is done at most so many times."""

    name: str
    done: int
    of: int
    most: float

    def show(self) -> str:
        """Return one line."""
        times = self.done / self.of
        verdict = "PASS" if times <= self.most else "OVER"
        return f"{self.name:44} {f'{self.done} for {self.of}, {times:.2f} x':47}   {f'{self.most:g} x':18} {verdict}"


def reduce(world: World, branches: int = 100, each: float = 0.05) -> list[Case | Count]:
    """Measure the first integration, and another one without one task.

    The floor is the same number of pytest processes and tests, one after the other, in a plain checkout of the result.
    """
    directory = world.root / "reduce"
    project = make_world(directory, branches=branches, seconds=each)
    adopt_run(world.home, project.run)
    first = _integrated(world, directory)
    data = json.loads(Path(project.run.path, "integration.json").read_text())
    problems = judge(project, data)
    if problems or data["verdict"] != "green":
        raise SystemExit(f"the branch is {data['verdict']}\n" + "\n".join(problems))
    floor = _bare(world, directory, data["head"], sorted(project.shop.tests), data["runs"])
    first_case = Case(f"tmr integrate, {branches} branches", times=1.3, more=30.0)
    first_case.add(floor, first)
    task = next(slug for slug, branch in project.tasks.items() if branch.kind == "harmless")
    repeated = Case("the same without one task, and the first", times=0.1)
    repeated.add(first, _integrated(world, directory, f"--without {task}"))
    return [first_case, Count("tests that it runs, and the suite", data["runs"]["tests"], project.tests, 5.0), repeated]


def _integrated(world: World, directory: Path, more: str = "") -> float:
    return world.time("sh", "-c", f"{BIN / 'mngr'} {WORDS} {more}; test $? = 4", cwd=directory)


def _bare(world: World, directory: Path, head: str, tests: list[str], runs: dict[str, int]) -> float:
    """Measure the same number of processes and tests without mngr."""
    checkout = world.root / "reduce-bare"
    world.run("git", "-C", str(directory), "worktree", "add", "-q", "--detach", str(checkout), head)
    per_process, rest = divmod(runs["tests"], runs["processes"])
    position, total = 0, 0.0
    for number in range(runs["processes"]):
        count = per_process + (number < rest)
        selected = [tests[(position + more) % len(tests)] for more in range(count)]
        total += world.time(*PYTEST, *selected, cwd=checkout)
        position += count
    return total
