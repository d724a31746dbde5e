"""`make bench`: measures the commands as a multiple of the same work with bare tools."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from tests.bench.agents import agents
from tests.bench.board import board
from tests.bench.clusters import clusters
from tests.bench.engines import modal
from tests.bench.hosts import hosts
from tests.bench.measure import HEAD, Case
from tests.bench.projects import projects
from tests.bench.receipts import receipts
from tests.bench.reduce import reduce
from tests.bench.remote_tests import remote_tests
from tests.bench.runs import idle, runs
from tests.bench.scale import scale
from tests.bench.suites import suites
from tests.bench.world import BIN, World


class Shown(Protocol):
    """A measurement that can be shown."""

    def show(self) -> str:
        """Return one line."""
        ...


# The commands a person would type to save the state of a worktree and remove it.
SAVE = """\
status=$(git -C $wt status --porcelain=v2 --untracked-files=all --ignored=matching)
dir=$(git -C $wt rev-parse --git-dir)
cp $dir/index $dir/saved
GIT_INDEX_FILE=$dir/saved git -C $wt add -A
tree=$(GIT_INDEX_FILE=$dir/saved git -C $wt write-tree)
commit=$(git -C $wt commit-tree -p HEAD -m saved $tree)
git -C $wt update-ref refs/saved/$name $commit
git -C $wt bundle create -q $bare/$name.bundle refs/saved/$name ^HEAD
git -C $repo update-ref -d refs/saved/$name
git -C $repo worktree remove --force $wt
git -C $repo branch -q -D bare/$name
"""


def start_up(world: World) -> list[Case]:
    """Measure what every command costs before it does anything."""
    plugin = world.plugin()
    cases = [
        Case("mngr --help", times=5).alternate(world.python, lambda: world.mngr("--help"), 40),
        Case("mngr list, no agents", times=5).alternate(world.python, lambda: world.mngr("list"), 40),
    ]
    with_plugin = Case("mngr list, no agents, a plugin", times=8)
    cases.append(with_plugin.alternate(lambda: world.python(plugin), lambda: world.mngr("list", env=plugin), 40))
    return cases


def one(world: World, repo: Path, rounds: int) -> list[Case]:
    """Measure creating, running in, messaging, stopping and destroying one agent."""
    big = "5000" in repo.name
    size = repo.name.removeprefix("repo-") + " files"
    create = Case(f"create, {size}", times=2) if big else Case(f"create, {size}", more=0.060)
    exec_, message = Case(f"exec of one, {size}", more=0.080), Case(f"message to one, {size}", more=0.080)
    stop, destroy = Case(f"stop of one, {size}", more=0.080), Case(f"destroy of one, {size}", more=0.080)
    for number in range(rounds + 1):
        name, wt = f"x{number}", world.bare / f"x{number}"
        floors = [
            world.time("git", "-C", str(repo), "worktree", "add", "-q", "-b", f"bare/{name}", str(wt))
            + world.time(*world.tmux("new-session", "-d", "-s", name, "-c", str(wt), "sleep", "1000"))
            + world.python()
        ]
        subjects = [world.mngr("create", name, "--no-connect", "--", "sleep", "1000", cwd=repo)]
        floors.append(world.time("sh", "-c", f"cd {wt} && exec true"))
        subjects.append(world.mngr("exec", name, "--", "true"))
        floors.append(
            world.time(*world.tmux("load-buffer", "-b", "b", "-"), stdin="hello")
            + world.time(*world.tmux("paste-buffer", "-p", "-d", "-b", "b", "-t", name))
            + world.time(*world.tmux("send-keys", "-t", name, "Enter"))
        )
        subjects.append(world.mngr("message", name, "-m", "hello"))
        floors.append(world.time(*world.tmux("kill-session", "-t", name)))
        subjects.append(world.mngr("stop", name))
        for work_dir in (wt, world.home / "work" / name):
            (work_dir / "new.txt").write_text("not committed\n")
        script = f"wt={wt} name={name} repo={repo} bare={world.bare}\n{SAVE}"
        floors.append(world.time("sh", "-ec", script))
        subjects.append(world.mngr("destroy", name))
        if number:
            for case, floor, subject in zip((create, exec_, message, stop, destroy), floors, subjects, strict=True):
                case.add(floor, subject)
    return [create, exec_, message, stop, destroy]


def hundred(world: World, repo: Path, rounds: int, count: int = 100) -> list[Case]:
    """Measure the same for a hundred agents at once, against a loop of bare commands."""
    size = repo.name.removeprefix("repo-") + " files"
    grace = 2.0
    create = Case(f"create --count {count}, {size}", times=1.3)
    stop = Case(f"stop of {count}, {size}", times=2, more=grace)
    destroy = Case(f"destroy of {count}, {size}", times=2)
    listed = Case(f"list, {count} agents", times=4)
    tmux, panes = " ".join(world.tmux()), world.tmux("list-panes", "-a")
    for number in range(rounds):
        names = [f"r{number}-{n}" for n in range(1, count + 1)]
        start = f"for name in {' '.join(names)}; do wt={world.bare}/$name repo={repo} bare={world.bare}\n"
        session = f"{tmux} new-session -d -s $name -c $wt sleep 1000\n"
        end = f"{tmux} kill-session -t =$name\n"
        stdin = "\n".join(names)
        create.add(
            world.time("sh", "-ec", f"{start} git -C $repo worktree add -q -b bare/$name $wt\n{session}done"),
            world.mngr("create", f"r{number}", "--count", str(count), "--", "sleep", "1000", cwd=repo),
        )
        listed.alternate(lambda: world.python() + world.time(*panes), lambda: world.mngr("list"), 10)
        stop.add(world.time("sh", "-ec", f"{start}{end}done"), world.mngr("stop", "-", stdin=stdin))
        world.sh(f"{start}{session} echo x >$wt/new.txt\n done")
        world.mngr("start", "-", stdin=stdin)
        for name in names:
            (world.home / "work" / name / "new.txt").write_text("x\n")
        destroy.add(
            world.time("sh", "-ec", f"{start}{end}{SAVE}done"),
            world.mngr("destroy", "--force", "-", stdin=stdin),
        )
    return [create, listed, stop, destroy]


def growth(world: World, repo: Path) -> str:
    """Measure `list` with 100 to 1,000 agents."""
    world.mngr("create", "model", "--transfer", "none", "--", "sleep", "0.1", cwd=repo)
    world.mngr("wait", "model", "--timeout", "20s")
    times = []
    for hundreds in range(1, 11):
        world.add_agents("model", 100, hundreds * 100)
        times.append(min(world.mngr("list") for _ in range(7)) * 1000)
    world.sh(f"rm -rf {world.home}/agents/a-00000000* {world.home}/names/copy-*")
    per_hundred = (times[-1] - times[0]) / 9
    return f"list with 100, 200, … 1,000 agents: {' '.join(f'{t:.0f}' for t in times)} ms; {per_hundred:.1f} ms per further 100"


def _local(world: World) -> Iterator[Shown]:
    world.bare.mkdir()
    world.run(*world.tmux("new-session", "-d", "-s", "keep", "sleep", "100000"))
    for repo, rounds, times in ((_small(world), 15, 3), (world.repo(5000, 6000), 7, 1)):
        yield from one(world, repo, rounds)
        yield from hundred(world, repo, times)


def _small(world: World) -> Path:
    """Return the small repository, and create it once."""
    repo = world.root / "repo-200"
    return repo if repo.exists() else world.repo(200, 2000)


def _growth(world: World) -> Iterator[str]:
    yield growth(world, _small(world))
    share = idle(world)
    verdict = "PASS" if share <= 0.02 else "OVER"
    yield f"100 agents that do nothing: watching them takes {share:.1%} of one core, of at most 2 % {verdict}"


PARTS: dict[str, Callable[[World], Iterable[Shown | str]]] = {
    "start": start_up,
    "local": _local,
    "coders": lambda world: agents(world, _small(world)),
    "hosts": lambda world: hosts(world, _small(world)),
    "modal": lambda world: modal(world, _small(world)),
    "clusters": clusters,
    "runs": runs,
    "receipts": receipts,
    "reduce": reduce,
    "suites": suites,
    "test-on": remote_tests,
    "scale": scale,
    "growth": _growth,
    "board": board,
}
# These parts need a package index and much time, so they run only when they are named.
NAMED_PARTS: dict[str, Callable[[World], Iterable[Shown | str]]] = {"projects": projects}


def main() -> None:
    """Measure everything, or the named parts, and print the results."""
    parts = sys.argv[1:] or list(PARTS)
    known = {**PARTS, **NAMED_PARTS}
    if unknown := [part for part in parts if part not in known]:
        raise SystemExit(f"there is no part {unknown[0]!r}: {', '.join(known)}")
    world = World()
    try:
        version = json.loads(
            subprocess.run([BIN / "mngr", "version", "--format", "json"], capture_output=True, check=True).stdout
        )
        print(f"mngr {version['version']}, Python {version['python']}, in {world.root}\n\n{HEAD}", flush=True)
        for part in parts:
            for measured in known[part](world):
                print(measured if isinstance(measured, str) else measured.show(), flush=True)
    finally:
        world.close()


if __name__ == "__main__":
    main()
