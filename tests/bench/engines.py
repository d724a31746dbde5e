"""A hundred hosts of an engine: made with an agent each, listed, and worked on by a run."""

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

AT_ONCE = 32  # as many hosts as `create` makes and `list` asks at a time
BOOTS = 1.0  # seconds that a sandbox takes to boot where that is not nothing
HELLO = "hello"


class Alone:
    """Modal's library without us, loaded once: see modal_alone.py."""

    def __init__(self, env: dict[str, str]) -> None:
        script = Path(__file__).with_name("modal_alone.py")
        self._process = subprocess.Popen(
            [python(), script, str(AT_ONCE)], env={**os.environ, **env}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, verb: str, *words: object) -> float:
        """The seconds that it took."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps([verb, *words]) + "\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Workspace:
    """A home of ours that uses a control plane on this machine."""

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
        """Their names, as we know them."""
        return [path.stem for path in Path(self.env["MNGR_HOME"], "hosts/modal").glob("*.json")]

    def slow(self, boots: float) -> None:
        """A sandbox takes so many seconds to boot from now on."""
        self._modal.fail(boot_delay=boots)

    def sandboxes(self) -> list[str]:
        """Their ids, as the control plane says."""
        return list(self._modal.left()["sandboxes"])

    def check(self, count: int) -> None:
        """So many agents run, each in a sandbox of its own, and each has had its message."""
        done = subprocess.run(
            [BIN / "mngr", "list", "--format", "json"], env={**self._world.env, **self.env}, capture_output=True, check=True
        )  # fmt: skip
        agents = json.loads(done.stdout)["agents"]
        assert len({agent["host"] for agent in agents}) == count == len(agents)
        assert {agent["state"] for agent in agents} == {"WAITING"}

    def start(self) -> float:
        """What mngr costs before it does anything."""
        return min(self.mngr("config", "get", "providers.modal.linger") for _ in range(20))


def modal(world: World, repo: Path, count: int = 100) -> Iterator[Case]:
    """Sandboxes of the control plane of ours, against the library alone."""
    files = repo.name.removeprefix("repo-") + " files"
    for transfer, boots, what in (
        ("none", BOOTS, f"{BOOTS:g} s to boot"),
        ("mirror", BOOTS, f"{BOOTS:g} s to boot, {files}"),
        ("none", 0, "at once"),
    ):
        with Modal(under="/dev/shm") as plane:
            place, alone = Workspace(world, plane), Alone(plane.env)
            try:
                yield from _made(place, alone, repo, count, transfer, boots, what)
                if not boots:
                    yield from _listed(place, alone, count)
            finally:
                alone.close()


def _made(
    place: Workspace, alone: Alone, repo: Path, count: int, transfer: str, boots: float, what: str
) -> Iterator[Case]:
    """`create`, until every first message is proven, where a sandbox takes so many seconds to boot.

    Where it takes none, nearly all that is measured is the agent: then also against the same by hand.
    """
    place.mngr("create", "first@.modal", "--", "true", cwd=repo)  # loads the library and builds the image
    place.mngr("destroy", "--force", *(f"@{host}.modal" for host in place.hosts()))
    alone.ask("create", 1)
    alone.ask("end")
    place.slow(boots)
    floor = alone.ask("create", count)
    alone.ask("end")
    words = ("create", "w@.modal", "player", "--count", str(count), "--agents-per-host", "1", "-m", HELLO)
    took = place.mngr(*words, "--transfer", transfer, cwd=repo)
    place.check(count)
    case = Case(f"create on {count} sandboxes, {what}", times=2.5)
    case.add(floor, took)
    yield case
    if not boots:
        sandboxes = place.sandboxes()
        case = Case(f"create on {count} sandboxes, {what}, by hand", times=2.5)
        case.add(alone.ask("create", count, *_by_hand()), took)
        alone.ask("end")
        yield case
        assert place.sandboxes() == sandboxes


def _by_hand() -> list[str]:
    """One command that starts the same agent in tmux and types the same message, with nothing of ours around it."""
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


def _listed(place: Workspace, alone: Alone, count: int) -> Iterator[Case]:
    """`list`, against one bare command in each sandbox: one that does nothing, and one that asks tmux what it has."""
    sandboxes = place.sandboxes()
    assert len(sandboxes) == count
    start = place.start()
    look = ("sh", "-c", "tmux -S /tmp/mngr-0/* list-panes -a")
    for what, words in ((f"list, {count} sandboxes, {count} agents", ()), ("list, against bare tmux", look)):
        floor = partial(alone.ask, "exec", sandboxes, *words)
        yield Case(what, times=1.5, more=start).alternate(floor, partial(place.mngr, "list"), 10)
