"""A hundred branches made into one: what it takes beside its test runs, how many tests it runs, and what a change of mind costs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import Case
from tests.bench.world import BIN, World
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
        """One line."""
        times = self.done / self.of
        verdict = "PASS" if times <= self.most else "OVER"
        return f"{self.name:44} {f'{self.done} for {self.of}, {times:.2f} x':47}   {f'{self.most:g} x':18} {verdict}"


def reduce(world: World, branches: int = 100, each: float = 0.05) -> list[Case | Count]:
    """The first time, and again without one task.

    The floor is as many processes of pytest one after the other, with as many tests in all, in a plain checkout of the result.
    """
    place = world.root / "reduce"
    made = make_world(place, branches=branches, seconds=each)
    first = _integrated(world, place)
    data = json.loads(Path(made.run.path, "integration.json").read_text())
    wrong = judge(made, data)
    if wrong or data["verdict"] != "green":
        raise SystemExit(f"the branch is {data['verdict']}\n" + "\n".join(wrong))
    floor = _bare(world, place, data["head"], sorted(made.shop.tests), data["runs"])
    whole = Case(f"tmr integrate, {branches} branches", times=1.3, more=30.0)
    whole.add(floor, first)
    task = next(slug for slug, one in made.tasks.items() if one.kind == "harmless")
    again = Case("the same without one task, and the first", times=0.1)
    again.add(first, _integrated(world, place, f"--without {task}"))
    return [whole, Count("tests that it runs, and the suite", data["runs"]["tests"], made.tests, 5.0), again]


def _integrated(world: World, place: Path, more: str = "") -> float:
    return world.time("sh", "-c", f"{BIN / 'mngr'} {WORDS} {more}; test $? = 4", cwd=place)


def _bare(world: World, place: Path, head: str, tests: list[str], runs: dict[str, int]) -> float:
    """The same number of processes and of tests, without anything of ours."""
    checkout = world.root / "reduce-bare"
    world.run("git", "-C", str(place), "worktree", "add", "-q", "--detach", str(checkout), head)
    each, rest = divmod(runs["tests"], runs["processes"])
    at, total = 0, 0.0
    for number in range(runs["processes"]):
        count = each + (number < rest)
        some = [tests[(at + more) % len(tests)] for more in range(count)]
        total += world.time(*PYTEST, *some, cwd=checkout)
        at += count
    return total
