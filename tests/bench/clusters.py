"""Measures a run of many tasks on a cluster: all tasks settle, and what the loss of a node costs."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mngr.base import time_format
from tests.bench.runs import STEPS
from tests.bench.world import BIN, World
from tests.providers.ray.test_contract import settings as ray_settings
from tests.providers.slurm.test_contract import settings as slurm_settings
from tests.support.hosts.ray import Cluster
from tests.support.hosts.slurm import Slurm
from tests.support.journal_file import read_json_rows

TEST = "def test_one():\n    assert 1 + 1 == 2\n"
THINKS = 2.0  # seconds before an agent does something, so that the loss of a node costs something
RESTARTS = ("its host is gone", "lost")  # reasons for which mngr restarts an agent
AGENTS, SHARE = 20, 5  # agents at the same time, and agents per host


@dataclass
class Engine:
    """A running cluster: how mngr finds it, the node of each host, and how to kill a node."""

    name: str
    env: dict[str, str]
    places: Callable[[], dict[str, str]]
    kill: Callable[[str], None]


@dataclass
class Settled:
    """A promise: all tasks settle, and a lost node costs at most the time of its own unfinished tasks."""

    name: str
    tasks: int
    settled: int
    wrong: list[str]  # the outcomes of tasks that failed
    seconds: float
    before: float | None = None  # seconds of the same run without the loss of a node
    unfinished: int = 0  # unfinished tasks of the node when it was lost
    took: float = 0.0  # seconds from the loss until the last of these settled
    others: int = 0  # tasks of other nodes that were restarted

    def show(self) -> str:
        """Return one line."""
        text, promise = f"{self.seconds:.1f} s, {self.settled} of {self.tasks} settled", "all settle"
        is_kept = self.settled == self.tasks and not self.wrong
        if self.wrong:
            text += f" ({len(self.wrong)} not well: {self.wrong[0]})"
        if self.before is not None:
            extra = self.seconds - self.before
            text += f"; {extra:+.1f} s, {self.unfinished} tasks took {self.took:.1f} s from the loss on, {self.others} others again"
            promise += f", at most {self.took:.1f} s more"
            is_kept = is_kept and extra <= self.took and self.others == 0
        return f"{self.name:44} {text}   {promise} {'PASS' if is_kept else 'OVER'}"


def clusters(world: World, tasks: int = 100) -> Iterator[Settled]:
    """Measure Ray and Slurm, each with a private head and nodes on this machine."""
    with Cluster() as ray:
        env = ray_settings(ray)
        yield from _runs(world, tasks, Engine("ray", env, lambda: _on_ray(ray), ray.kill))
    with Slurm() as slurm:
        env = {**slurm_settings(slurm), "MNGR__PROVIDERS__SLURM__CPUS": "8"}  # two hosts per node
        yield from _runs(world, tasks, Engine("slurm", env, lambda: _on_slurm(slurm), slurm.crash_node))


def _runs(world: World, tasks: int, engine: Engine) -> Iterator[Settled]:
    undisturbed = _run(world, tasks, engine, None)
    yield undisturbed
    yield _run(world, tasks, engine, undisturbed.seconds)


def _on_ray(ray: Cluster) -> dict[str, str]:
    return {host: node for node in ray.nodes for host in ray.hosts(node)}


def _on_slurm(slurm: Slurm) -> dict[str, str]:
    """Return the node of each host, from the job comments, which name the hosts of an array in order."""
    nodes = {}
    for row in slurm.run("squeue", "-h", "-r", "-t", "R", "-o", "%N|%K|%k").splitlines():
        node, element, comment = row.split("|", 2)
        host = comment.split(" ")[2].split(",")[int(element) if element.isdecimal() else 0]
        nodes[host.rpartition("-")[0]] = node
    return nodes


def _run(world: World, tasks: int, engine: Engine, before: float | None) -> Settled:
    """Run once. With `before`, the time of the same undisturbed run, kill a node in the middle."""
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
    steps = [{"sleep": THINKS}, STEPS[0], *STEPS[2:]]  # mngr itself runs the test twice
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
    loss = None if before is None else _lose(process, journal, tasks, engine)
    stderr = process.communicate()[1].decode()
    elapsed = time.perf_counter() - start
    rows = _rows(journal)
    settled_rows = [row for row in rows if row["type"] == "settled"]
    assert rows, stderr
    result = Settled(
        f"tmr run, {tasks} tasks on {engine.name}" + ("" if loss is None else ", a node lost"),
        tasks, len({row["slug"] for row in settled_rows}),
        [f"{row['outcome']}, {row.get('reason')}" for row in settled_rows if row["outcome"] != "improved"], elapsed, before,
    )  # fmt: skip
    if loss is not None:
        lost_at, hosts = loss
        unfinished = _own(rows, lost_at, hosts)
        ends = {row["slug"]: time_format.parse_timestamp(row["at"]) for row in settled_rows}
        result.unfinished = len(unfinished)
        result.took = max((ends.get(slug, lost_at) - lost_at for slug in unfinished), default=0.0)
        restarted = {row["slug"] for row in rows if row["type"] == "launch" and row["attempt"] > 1}
        restarted |= {row["slug"] for row in rows if row["type"] == "remind" and row["why"] in RESTARTS}
        result.others = len(restarted - unfinished)
    return result


def _own(rows: list[dict[str, Any]], lost_at: float, hosts: set[str]) -> set[str]:
    """Return the tasks of lost hosts: unfinished there, or sent there before the loss was noticed."""
    first_launches = {row["slug"]: row for row in reversed(rows) if row["type"] == "launch"}
    before = [row for row in rows if time_format.parse_timestamp(row["at"]) <= lost_at]
    on_lost_hosts = {row["slug"] for row in rows if row["type"] == "launched" and row["host"] in hosts}
    on_lost_hosts &= {row["slug"] for row in before if row["type"] == "launch"}
    failed = {row["slug"] for row in rows if row["type"] == "launch_failed"}
    return (on_lost_hosts - _home(before)) | {slug for slug in failed if first_launches[slug].get("host") in hosts}


def _lose(process: subprocess.Popen[bytes], journal: str, tasks: int, engine: Engine) -> tuple[float, set[str]]:
    """Kill the busiest node once half of the tasks have started. Return when, and its hosts."""
    while process.poll() is None:
        rows = _rows(journal)
        if sum(row["type"] == "prompted" for row in rows) >= tasks // 2:
            places, collected = engine.places(), _home(rows)
            busy = [
                places.get(row["host"]) for row in rows if row["type"] == "launched" and row["slug"] not in collected
            ]
            if nodes := [node for node in busy if node is not None]:
                node = max(nodes, key=nodes.count)
                lost_at = time.time()
                engine.kill(node)
                return lost_at, {host for host, host_node in places.items() if host_node == node}
        time.sleep(0.1)
    raise SystemExit(f"the run on {engine.name} ended before a node could be lost")


def _home(rows: list[dict[str, Any]]) -> set[str]:
    """Return the tasks whose work is collected."""
    return {row["slug"] for row in rows if row["type"] == "settled" or (row["type"] == "pulled" and row["final"])}


def _rows(journal: str) -> list[dict[str, Any]]:
    return read_json_rows(journal) if Path(journal).exists() else []
