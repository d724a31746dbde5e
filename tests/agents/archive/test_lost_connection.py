"""Tests in which the connection is lost during destroy, undestroy, clone or migrate.

One complete copy of the agent must exist afterwards.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mngr.host import scripts
from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import IS_FULL_SCALE, MngrProgram, ProgramResult, run_git, wait_for
from tests.support.hosts.sshd import Farm

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(3)]

# A plugin that pauses mngr at a step until the test deletes the file $PAUSE.
PLUGIN = """
import os, time
import pluggy

@pluggy.HookimplMarker("mngr")
def mngr_step(operation, step, agent):
    here = os.environ.get("PAUSE", "")
    if os.environ.get("PAUSE_AT") == f"{operation}:{step}":
        open(here, "w").close()
        while os.path.exists(here):
            time.sleep(0.005)
"""
DESTROY = ("mark", "end", "save", "remove", "bury")
RESTORE = ("reserve", "agent_files", "work_dir", "prepare", "set_up", "commit")
RUN = ("--", "sleep", "1000")
WORK = """
echo one >committed.txt && git add -A
git -c user.name=Agent -c user.email=agent@example.invalid commit -q -m mine
echo staged >staged.txt && git add staged.txt && echo more >>staged.txt
rm src/app.py && mkdir -p new/empty && ln -s nowhere new/link && chmod 700 README.md
echo hello >>"$MNGR_OUTPUT_DIR/result"
"""
LOOK = """
git log --format=%s; git status --porcelain -uall; git diff --cached | git hash-object --stdin
find . -name .git -prune -o -type f -exec git hash-object {} + | sort
find . -name .git -prune -o -printf '%p %m %y %l\\n' | sort; cat "$MNGR_OUTPUT_DIR/result"
"""


def cases(names: str, every: Sequence[Any], some: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize with all cases at full scale, else with a selection."""
    return pytest.mark.parametrize(names, every if IS_FULL_SCALE else some)


class World:
    """The program, its hosts, and ways to cut a host off at a given moment."""

    def __init__(self, mngr: MngrProgram, farm: Farm, root: Path) -> None:
        self.mngr = mngr
        self.farm = farm
        self.pause = root / "pause"
        self.looks: dict[str, str] = {}
        site = root / "site"
        info = site / "pauser-1.dist-info"
        info.mkdir(parents=True)
        (info / "entry_points.txt").write_text("[mngr]\npauser = pauser_plugin\n")
        (site / "pauser_plugin.py").write_text(PLUGIN)
        mngr.env["PYTHONPATH"] = str(site)
        mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)

    def make(self, address: str) -> str:
        """Create an agent with work of all kinds and return a description of its work dir."""
        name = address.partition("@")[0]
        self.mngr("create", address, *RUN)
        self.mngr("exec", name, "--", "sh", "-ec", WORK)
        return self.look(name)

    def look(self, name: str) -> str:
        """Return a description of the agent's work dir, for comparison."""
        return self.mngr("exec", name, "--", "sh", "-ec", LOOK).out

    def cut_at(self, step: str, host: str, *words: str) -> ProgramResult:
        """Run a command and cut the host off when the command reaches the step."""
        return self.pause_at(step, lambda: self.farm.cut(host), *words)

    def pause_at(self, step: str, act: Callable[[], None], *words: str) -> ProgramResult:
        """Run a command and call `act` when the command reaches the step."""
        mngr = self.mngr
        mngr.env.update(PAUSE_AT=step, PAUSE=str(self.pause))
        with BackgroundProgram(mngr, *words) as process:
            wait_for(self.pause.exists)
            act()
            self.pause.unlink()
            result = process.wait_for_end()
        del mngr.env["PAUSE_AT"], mngr.env["PAUSE"]
        return result

    def cut_when(self, condition: Callable[[], Any], host: str, *words: str) -> ProgramResult:
        """Run a command and cut the host off when the condition is true."""
        with BackgroundProgram(self.mngr, *words) as process:
            wait_for(condition)
            self.farm.cut(host)
            return process.wait_for_end()

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return all agents in `list` with this name."""
        return [agent for agent in self.mngr.list_agents() if agent["name"] == name]

    def list_trash(self) -> list[dict[str, Any]]:
        """Return the agents in the trash."""
        return list(self.mngr.run_json("undestroy", "--list")["trash"])


@pytest.fixture
def world(mngr: MngrProgram, farm: Farm, tmp_path: Path) -> World:
    return World(mngr, farm, tmp_path)


@cases(
    "step, finisher",
    [(step, finisher) for step in DESTROY for finisher in ("gc", "destroy")],
    [("end", "gc"), ("save", "destroy"), ("remove", "gc"), ("bury", "destroy")],
)
def test_a_destroy_that_loses_its_host_can_be_finished_and_undone(world: World, step: str, finisher: str) -> None:
    before = world.make("foo@h1")
    result = world.cut_at(f"destroy:{step}", "h1", "destroy", "--force", "foo")
    assert result.code == (0 if step == "bury" else 6), result
    world.farm.mend("h1")
    agents, trash = world.rows("foo"), world.list_trash()
    assert bool(agents) == (step != "bury") and len(agents) + sum(not trashed["problem"] for trashed in trash) >= 1
    if finisher == "gc" and step not in ("mark", "bury"):
        assert agents[0]["state_reason"] in ("destroy_interrupted", None)
        assert "interrupted destroy foo" in world.mngr("gc").out
    elif agents:
        world.mngr("destroy", "--force", "foo")
    assert world.rows("foo") == [] and [trashed["problem"] for trashed in world.list_trash()] == [None]
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@pytest.mark.parametrize("how", ["destroy", "undestroy", "gc"])
def test_a_removal_whose_confirmation_was_lost_is_detected(world: World, how: str) -> None:
    """The host removes the agent, but its answer is lost."""
    before = world.make("foo@h1")
    agent = world.mngr.get_agent("foo")
    home = str(world.farm.home("h1") / ".mngr")

    def remove_and_cut() -> None:
        argv = ["sh", "-c", scripts.read_program("remove_agent.sh"), "remove_agent.sh", home, agent["id"], "foo", "foo"]
        subprocess.run(argv, check=True)
        world.farm.cut("h1")

    result = world.pause_at("destroy:remove", remove_and_cut, "destroy", "--force", "foo")
    assert result.code == 6
    world.farm.mend("h1")
    assert world.rows("foo") == []
    if how != "undestroy":
        output = world.mngr(how, *(["foo"] if how == "destroy" else []))
        assert "foo" in output.out
        assert [trashed["problem"] for trashed in world.list_trash()] == [None]
        assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@cases("step", RESTORE, ("reserve", "work_dir", "commit"))
def test_an_undestroy_that_loses_its_host_keeps_the_trash_entry_and_can_be_repeated(world: World, step: str) -> None:
    before = world.make("foo@h1")
    world.mngr("destroy", "--force", "foo")
    result = world.cut_at(f"undestroy:{step}", "h1", "undestroy", "foo")
    assert result.code == 6, result
    world.farm.mend("h1")
    assert [trashed["problem"] for trashed in world.list_trash()] == [None]
    if step not in ("reserve",):
        assert [row["state_reason"] for row in world.rows("foo")] == ["create_interrupted"]
        world.mngr("gc")
    assert world.rows("foo") == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []


@cases("step", RESTORE[1:], ("prepare",))
def test_destroy_of_a_half_restored_agent_keeps_the_original_trash_entry(world: World, step: str) -> None:
    before = world.make("foo@h1")
    world.mngr("destroy", "--force", "foo")
    world.cut_at(f"undestroy:{step}", "h1", "undestroy", "foo")
    world.farm.mend("h1")
    world.mngr("destroy", "foo")
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@cases("step", RESTORE, ("reserve", "commit"))
def test_a_clone_that_loses_its_host_leaves_the_original_and_can_be_repeated(world: World, step: str) -> None:
    before = world.make("foo@h1")
    result = world.cut_at(f"clone:{step}", "h2", "clone", "foo", "bar@h2")
    assert result.code == 6, result
    assert world.look("foo") == before and world.mngr.get_agent("foo")["state"] == "RUNNING"
    world.farm.mend("h2")
    world.mngr("gc")
    assert world.rows("bar") == [] and world.mngr.run_json("gc", "--dry-run")["results"] == []
    world.mngr("clone", "foo", "bar@h2")
    assert world.look("bar") == before


@cases(
    "step, host",
    [(step, host) for step in ("mark", "end", "save", *RESTORE, "remove") for host in ("h1", "h2")],
    [("end", "h1"), ("save", "h2"), ("work_dir", "h2"), ("commit", "h1"), ("remove", "h1")],
)
def test_a_migrate_that_loses_a_host_keeps_one_complete_agent(world: World, step: str, host: str) -> None:
    before = world.make("foo@h1")
    agent_id = world.mngr.get_agent("foo")["id"]
    result = world.cut_at(f"migrate:{step}", host, "migrate", "foo", "@h2")
    world.farm.mend(host)
    assert result.code in (0, 6), result
    complete = [
        row for row in world.rows("foo") if row["state_reason"] not in ("create_interrupted", "destroy_interrupted")
    ]
    assert len(complete) <= 1
    assert complete or [row["state_reason"] for row in world.rows("foo")].count("destroy_interrupted") == 1
    world.mngr("gc")
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    rows = world.rows("foo")
    assert len(rows) <= 1
    if not rows:
        world.mngr("undestroy", "foo")
    assert world.mngr.get_agent("foo")["id"] == agent_id
    assert world.look("foo") == before


@cases("step", ("save", "work_dir", "commit"), ("work_dir",))
def test_a_migrate_that_lost_its_target_host_can_be_repeated(world: World, step: str) -> None:
    before = world.make("foo@h1")
    result = world.cut_at(f"migrate:{step}", "h2", "migrate", "foo", "@h2")
    assert result.code == 6
    world.farm.mend("h2")
    world.mngr("migrate", "foo", "@h2")
    assert (world.mngr.get_agent("foo")["host"], world.mngr.get_agent("foo")["state"]) == ("h2", "RUNNING")
    assert world.look("foo") == before
    assert world.mngr.run_json("gc", "--dry-run")["results"] == [] and world.list_trash() == []


def test_an_interrupted_stream_leaves_no_partial_agent(world: World) -> None:
    world.make("foo@h1")
    world.mngr("exec", "foo", "--", "sh", "-c", "head -c 60000000 /dev/urandom >big.bin")
    before, home = world.look("foo"), world.mngr.home
    stage = home / "cache" / "stage"

    def measure_size(root: Path) -> int:
        try:
            return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        except OSError:
            return 0

    result = world.cut_when(lambda: measure_size(stage) > 1_000_000, "h1", "destroy", "--force", "foo")
    assert result.code == 6 and list(stage.iterdir()) == []
    world.farm.mend("h1")
    assert world.list_trash() == [] and len(world.rows("foo")) == 1
    world.mngr("destroy", "--force", "foo")
    agents_dir = world.farm.home("h2") / ".mngr" / "agents"
    result = world.cut_when(lambda: measure_size(agents_dir) > 1_000_000, "h2", "undestroy", "foo", "--on", "@h2")
    assert result.code == 6
    world.farm.mend("h2")
    world.mngr("gc")
    assert list((world.farm.home("h2") / ".mngr" / "work").iterdir()) == []
    world.mngr("undestroy", "foo", "--on", "@h2")
    assert world.look("foo") == before


def test_parallel_destroys_and_undestroys_lose_nothing(world: World) -> None:
    before = world.make("foo@h1")
    results: list[ProgramResult] = []

    def run(*words: str) -> None:
        results.append(world.mngr(*words, code=None))

    for words in (("destroy", "--force", "foo"), ("undestroy", "foo")) * (10 if IS_FULL_SCALE else 1):
        results.clear()
        threads = [threading.Thread(target=run, args=words) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert any(result.code == 0 for result in results), [result.err for result in results]
    assert world.look("foo") == before
    assert run_git(world.mngr.repo, "worktree", "list").count("\n") == 0
