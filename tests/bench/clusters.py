"""A run of many tasks on a cluster: that all of it settles, and what a node costs that is lost in the middle."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mngr.base import clock
from mngr.mapreduce.journal import read_journal
from tests.bench.runs import STEPS
from tests.bench.world import BIN, World
from tests.providers.ray.test_contract import settings as ray_settings
from tests.providers.slurm.test_contract import settings as slurm_settings
from tests.support.hosts.ray import Cluster
from tests.support.hosts.slurm import Slurm

TEST = "def test_one():\n    assert 1 + 1 == 2\n"
THINKS = 2.0  # seconds that an agent takes before it does something, so that there is something to lose
RESTARTS = ("its host is gone", "lost")  # why an agent is made to go on that was at work
AGENTS, SHARE = 20, 5  # agents at a time, and on one host


@dataclass
class Engine:
    """A cluster that is there: how mngr finds it, which node each host is on, and how to lose one."""

    name: str
    env: dict[str, str]
    places: Callable[[], dict[str, str]]
    kill: Callable[[str], None]


@dataclass
class Settled:
    """A promise: all tasks settle; a lost node costs at most what its own unfinished tasks took until they were settled."""

    name: str
    tasks: int
    settled: int
    wrong: list[str]  # how those ended that did not end well
    seconds: float
    before: float | None = None  # seconds of the same run without a loss
    unfinished: int = 0  # tasks of that node when it was lost
    took: float = 0.0  # seconds from then until the last of them was settled
    others: int = 0  # tasks of other nodes that were begun again

    def show(self) -> str:
        """One line."""
        said, wanted = f"{self.seconds:.1f} s, {self.settled} of {self.tasks} settled", "all settle"
        good = self.settled == self.tasks and not self.wrong
        if self.wrong:
            said += f" ({len(self.wrong)} not well: {self.wrong[0]})"
        if self.before is not None:
            more = self.seconds - self.before
            said += f"; {more:+.1f} s, {self.unfinished} tasks took {self.took:.1f} s from the loss on, {self.others} others again"
            wanted += f", at most {self.took:.1f} s more"
            good = good and more <= self.took and self.others == 0
        return f"{self.name:44} {said}   {wanted} {'PASS' if good else 'OVER'}"


def clusters(world: World, tasks: int = 100) -> Iterator[Settled]:
    """Ray and Slurm, each a head and nodes of its own on this machine."""
    with Cluster() as ray:
        env = ray_settings(ray)
        yield from _runs(world, tasks, Engine("ray", env, lambda: _on_ray(ray), ray.kill))
    with Slurm() as slurm:
        env = {**slurm_settings(slurm), "MNGR__PROVIDERS__SLURM__CPUS": "8"}  # two hosts on a node
        yield from _runs(world, tasks, Engine("slurm", env, lambda: _on_slurm(slurm), slurm.crash_node))


def _runs(world: World, tasks: int, engine: Engine) -> Iterator[Settled]:
    calm = _run(world, tasks, engine, None)
    yield calm
    yield _run(world, tasks, engine, calm.seconds)


def _on_ray(ray: Cluster) -> dict[str, str]:
    return {host: node for node in ray.nodes for host in ray.hosts(node)}


def _on_slurm(slurm: Slurm) -> dict[str, str]:
    """By the comments of jobs, which name the hosts of an array in their order."""
    found = {}
    for row in slurm.run("squeue", "-h", "-r", "-t", "R", "-o", "%N|%K|%k").splitlines():
        node, element, said = row.split("|", 2)
        host = said.split(" ")[2].split(",")[int(element) if element.isdecimal() else 0]
        found[host.rpartition("-")[0]] = node
    return found


def _run(world: World, tasks: int, engine: Engine, before: float | None) -> Settled:
    """One run; with `before`, the time of the same undisturbed, a node is lost in the middle of it."""
    name = f"{engine.name}-{'calm' if before is None else 'loss'}"
    root = world.root / name
    (root / "tests").mkdir(parents=True)
    (root / ".gitignore").write_text("__pycache__/\n")
    for number in range(tasks):
        (root / "tests" / f"test_{number}.py").write_text(TEST)
    world.sh(f"cd {root} && git init -q -b main . && git add -A && git commit -q -m tests")
    env = {
        **world.env, **engine.env, "MNGR_HOME": str(world.root / f"home-{name}"),
        "MNGR__PROJECT__PYTEST": f"{BIN / 'python'} -m pytest -q -p no:cacheprovider -p no:xdist -p no:mngr",
    }  # fmt: skip
    steps = [{"sleep": THINKS}, STEPS[0], *STEPS[2:]]  # the test is run by us, twice
    words = [
        "tmr",
        "run",
        "--no-integrate",
        "--agent",
        "player",
        "--agent-arg",
        json.dumps(steps),
        "--name",
        "r",
    ]
    words += [
        "--runs",
        "1",
        "--verify-runs",
        "1",
        "--canary",
        "0",
        "--on",
        f".{engine.name}",
        "-q",
        "--format",
        "json",
    ]
    words += ["--max-agents", str(AGENTS), "--agents-per-host", str(SHARE)]
    journal = str(root / ".mngr/runs/r/journal.jsonl")
    start = time.perf_counter()
    process = subprocess.Popen(
        [BIN / "mngr", *words], cwd=root, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    lost = None if before is None else _lose(process, journal, tasks, engine)
    said = process.communicate()[1].decode()
    spent = time.perf_counter() - start
    rows = _rows(journal)
    done = [row for row in rows if row["type"] == "settled"]
    assert rows, said
    found = Settled(
        f"tmr run, {tasks} tasks on {engine.name}" + ("" if lost is None else ", a node lost"),
        tasks, len({row["slug"] for row in done}),
        [f"{row['outcome']}, {row.get('reason')}" for row in done if row["outcome"] != "improved"], spent, before,
    )  # fmt: skip
    if lost is not None:
        at, hosts = lost
        unfinished = _own(rows, at, hosts)
        ends = {row["slug"]: clock.parse_timestamp(row["at"]) for row in done}
        found.unfinished = len(unfinished)
        found.took = max((ends.get(slug, at) - at for slug in unfinished), default=0.0)
        again = {row["slug"] for row in rows if row["type"] == "launch" and row["attempt"] > 1}
        again |= {row["slug"] for row in rows if row["type"] == "remind" and row["why"] in RESTARTS}
        found.others = len(again - unfinished)
    return found


def _own(rows: list[dict[str, Any]], at: float, hosts: set[str]) -> set[str]:
    """The tasks of hosts that were lost: on them and not yet home, or sent there while nobody knew."""
    first = {row["slug"]: row for row in reversed(rows) if row["type"] == "launch"}
    before = [row for row in rows if clock.parse_timestamp(row["at"]) <= at]
    there = {row["slug"] for row in rows if row["type"] == "launched" and row["host"] in hosts}
    there &= {row["slug"] for row in before if row["type"] == "launch"}
    failed = {row["slug"] for row in rows if row["type"] == "launch_failed"}
    return (there - _home(before)) | {slug for slug in failed if first[slug].get("host") in hosts}


def _lose(process: subprocess.Popen[bytes], journal: str, tasks: int, engine: Engine) -> tuple[float, set[str]]:
    """Lose the node with the most at work on it once half of the tasks were begun; when that was, and its hosts."""
    while process.poll() is None:
        rows = _rows(journal)
        if sum(row["type"] == "prompted" for row in rows) >= tasks // 2:
            places, home = engine.places(), _home(rows)
            busy = [places.get(row["host"]) for row in rows if row["type"] == "launched" and row["slug"] not in home]
            if nodes := [node for node in busy if node is not None]:
                node = max(nodes, key=nodes.count)
                at = time.time()
                engine.kill(node)
                return at, {host for host, found in places.items() if found == node}
        time.sleep(0.1)
    raise SystemExit(f"the run on {engine.name} ended before a node could be lost")


def _home(rows: list[dict[str, Any]]) -> set[str]:
    """The tasks whose work is brought home."""
    return {row["slug"] for row in rows if row["type"] == "settled" or (row["type"] == "pulled" and row["final"])}


def _rows(journal: str) -> list[dict[str, Any]]:
    return read_journal(journal) if Path(journal).exists() else []
