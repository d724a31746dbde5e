"""Measures a hundred hosts of an engine: create them with an agent each, list them, and run tasks on them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mngr.host import scripts
from mngr.kinds.player import player
from mngr.kinds.player.scenario import parse_scenario
from tests.bench.measure import Case
from tests.bench.world import BIN, World
from tests.support.hosts.modal.server import Modal, python

AT_ONCE = 32  # the number of hosts that `create` and `list` handle at the same time
BOOTS = 1.0  # seconds that a sandbox takes to boot, unless it boots at once
HELLO = "hello"


class Alone:
    """Modal's library without mngr, loaded once; see modal_alone.py."""

    def __init__(self, env: dict[str, str]) -> None:
        script = Path(__file__).with_name("modal_alone.py")
        self._process = subprocess.Popen(
            [python(), script, str(AT_ONCE)], env={**os.environ, **env}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, verb: str, *words: object) -> float:
        """Run a request, and return the seconds it took."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([verb, *words]) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


class Workspace:
    """An mngr home that uses a control plane on this machine."""

    def __init__(self, world: World, modal: Modal) -> None:
        self._world, self._modal = world, modal
        prefix = "MNGR__PROVIDERS__MODAL__"
        self.env = {
            **modal.env,
            "MNGR_HOME": str(world.root / modal.state.name),
            prefix + "PYTHON": str(python()),
            prefix + "LINGER": "1m",
        }

    def mngr(self, *words: str, cwd: Path | None = None) -> float:
        return self._world.mngr(*words, cwd=cwd, env=self.env)

    def hosts(self) -> list[str]:
        """Return the names of the hosts, as mngr knows them."""
        return [path.stem for path in Path(self.env["MNGR_HOME"], "hosts/modal").glob("*.json")]

    def slow(self, boots: float) -> None:
        """Let a sandbox take `boots` seconds to boot from now on."""
        self._modal.fail(boot_delay=boots)

    def sandboxes(self) -> list[str]:
        """Return the ids of the sandboxes, as the control plane knows them."""
        return list(self._modal.left()["sandboxes"])

    def check(self, count: int) -> None:
        """Check that `count` agents run, each in its own sandbox, and that each has received its message."""
        completed = subprocess.run(
            [BIN / "mngr", "list", "--format", "json"], env={**self._world.env, **self.env}, capture_output=True, check=True
        )  # fmt: skip
        agents = json.loads(completed.stdout)["agents"]
        assert len({agent["host"] for agent in agents}) == count == len(agents)
        assert {agent["state"] for agent in agents} == {"WAITING"}

    def start(self) -> float:
        """Return what mngr costs before it does anything."""
        return min(self.mngr("config", "get", "providers.modal.linger") for _ in range(20))


def modal(world: World, repo: Path, count: int = 100) -> Iterator[Case]:
    """Measure sandboxes of the fake control plane, against the library alone."""
    files = repo.name.removeprefix("repo-") + " files"
    for transfer, boots, description in (
        ("none", BOOTS, f"{BOOTS:g} s to boot"),
        ("mirror", BOOTS, f"{BOOTS:g} s to boot, {files}"),
        ("none", 0, "at once"),
    ):
        with Modal(under="/dev/shm") as plane:
            workspace, alone = Workspace(world, plane), Alone(plane.env)
            try:
                yield from _made(workspace, alone, repo, count, transfer, boots, description)
                if not boots:
                    yield from _listed(workspace, alone, count)
            finally:
                alone.close()


def _made(
    workspace: Workspace, alone: Alone, repo: Path, count: int, transfer: str, boots: float, description: str
) -> Iterator[Case]:
    """Measure `create` until every first message is proven, with sandboxes that take `boots` seconds to boot.

    If they boot at once, nearly all of the time is the agent's, so the same is also measured by hand.
    """
    workspace.mngr("create", "first@.modal", "--", "true", cwd=repo)  # load the library and build the image
    workspace.mngr("destroy", "--force", *(f"@{host}.modal" for host in workspace.hosts()))
    alone.ask("create", 1)
    alone.ask("end")
    workspace.slow(boots)
    floor = alone.ask("create", count)
    alone.ask("end")
    words = ("create", "w@.modal", "player", "--count", str(count), "--agents-per-host", "1", "-m", HELLO)
    elapsed = workspace.mngr(*words, "--transfer", transfer, cwd=repo)
    workspace.check(count)
    case = Case(f"create on {count} sandboxes, {description}", times=2.5)
    case.add(floor, elapsed)
    yield case
    if not boots:
        sandboxes = workspace.sandboxes()
        case = Case(f"create on {count} sandboxes, {description}, by hand", times=2.5)
        case.add(alone.ask("create", count, *_by_hand()), elapsed)
        alone.ask("end")
        yield case
        assert workspace.sandboxes() == sandboxes


def _by_hand() -> list[str]:
    """Return a command that starts the same agent in tmux and types the same message, without mngr."""
    scenario = json.dumps(parse_scenario("[]"))
    return [
        "sh",
        "-c",
        _BY_HAND,
        "agent",
        scripts.read_program_beside(player.__file__, "player.py"),
        scenario,
        HELLO,
        player.hash_message(HELLO),
    ]


_BY_HAND = """
mkdir /tmp/agent && cd /tmp/agent || exit
printf %s "$1" >player.py
printf %s "$2" >scenario.json
MNGR_AGENT_DIR=$PWD tmux -S socket -f /dev/null new-session -d python3 player.py
until [ -s status ]; do sleep 0.05; done
tmux -S socket send-keys -l "$3" ';' send-keys Enter
until grep -qF -e "$4" events.jsonl; do sleep 0.05; done
"""


def _listed(workspace: Workspace, alone: Alone, count: int) -> Iterator[Case]:
    """Measure `list`, against one bare command in each sandbox: `true`, and a tmux command."""
    sandboxes = workspace.sandboxes()
    assert len(sandboxes) == count
    start = workspace.start()
    tmux_command = ("sh", "-c", "tmux -S /tmp/mngr-0/* list-panes -a")
    for description, words in (
        (f"list, {count} sandboxes, {count} agents", ()),
        ("list, against bare tmux", tmux_command),
    ):
        floor = partial(alone.ask, "exec", sandboxes, *words)
        yield Case(description, times=1.5, more=start).alternate(floor, partial(workspace.mngr, "list"), 10)
