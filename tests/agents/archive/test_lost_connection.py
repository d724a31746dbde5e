"""The connection ends at a step of destroy, undestroy, clone or migrate, or in the middle of a stream: one of it is whole."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mngr.host import scripts
from mngr.testkit.contract.program import BackgroundProgram
from tests.conftest import IS_FULL_SCALE, MngrProgram, ProgramResult, run_git, wait_for
from tests.support.hosts.sshd import Farm

pytestmark = [pytest.mark.hosts, pytest.mark.sampled(3)]

# Waits at a step until the test has done what it came for.
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
    """All of them in full, some of them else."""
    return pytest.mark.parametrize(names, every if IS_FULL_SCALE else some)


class World:
    """The program, its hosts, and a way to cut one off at a moment."""

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
        """An agent at work; how its work dir looks."""
        name = address.partition("@")[0]
        self.mngr("create", address, *RUN)
        self.mngr("exec", name, "--", "sh", "-ec", WORK)
        return self.look(name)

    def look(self, name: str) -> str:
        return self.mngr("exec", name, "--", "sh", "-ec", LOOK).out

    def cut_at(self, step: str, host: str, *words: str) -> ProgramResult:
        """Run a command, and cut a host off when it is at a step."""
        return self.pause_at(step, lambda: self.farm.cut(host), *words)

    def pause_at(self, step: str, act: Callable[[], None], *words: str) -> ProgramResult:
        """Run a command, and do something when it is at a step."""
        mngr = self.mngr
        mngr.env.update(PAUSE_AT=step, PAUSE=str(self.pause))
        with BackgroundProgram(mngr, *words) as process:
            wait_for(self.pause.exists)
            act()
            self.pause.unlink()
            ended = process.wait_for_end()
        del mngr.env["PAUSE_AT"], mngr.env["PAUSE"]
        return ended

    def cut_when(self, condition: Callable[[], Any], host: str, *words: str) -> ProgramResult:
        """Run a command, and cut a host off when something has happened."""
        with BackgroundProgram(self.mngr, *words) as process:
            wait_for(condition)
            self.farm.cut(host)
            return process.wait_for_end()

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [agent for agent in self.mngr.list_agents() if agent["name"] == name]

    def graves(self) -> list[dict[str, Any]]:
        return list(self.mngr.run_json("undestroy", "--list")["graves"])


@pytest.fixture
def world(mngr: MngrProgram, farm: Farm, tmp_path: Path) -> World:
    return World(mngr, farm, tmp_path)


@cases(
    "step, finisher",
    [(step, finisher) for step in DESTROY for finisher in ("gc", "destroy")],
    [("end", "gc"), ("save", "destroy"), ("remove", "gc"), ("bury", "destroy")],
)
def test_destroy(world: World, step: str, finisher: str) -> None:
    before = world.make("foo@h1")
    ended = world.cut_at(f"destroy:{step}", "h1", "destroy", "--force", "foo")
    assert ended.code == (0 if step == "bury" else 6), ended
    world.farm.mend("h1")
    here, graves = world.rows("foo"), world.graves()
    assert bool(here) == (step != "bury") and len(here) + sum(not grave["problem"] for grave in graves) >= 1
    if finisher == "gc" and step not in ("mark", "bury"):
        assert here[0]["state_reason"] in ("destroy_interrupted", None)
        assert "interrupted destroy foo" in world.mngr("gc").out
    elif here:
        world.mngr("destroy", "--force", "foo")
    assert world.rows("foo") == [] and [grave["problem"] for grave in world.graves()] == [None]
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@pytest.mark.parametrize("how", ["destroy", "undestroy", "gc"])
def test_what_was_done_without_our_knowing_is_found_out(world: World, how: str) -> None:
    """The host has taken the agent away, and its answer is lost."""
    before = world.make("foo@h1")
    agent = world.mngr.get_agent("foo")
    home = str(world.farm.home("h1") / ".mngr")

    def leave() -> None:
        argv = ["sh", "-c", scripts.read_program("leave.sh"), "leave.sh", home, agent["id"], "foo", "foo"]
        subprocess.run(argv, check=True)
        world.farm.cut("h1")

    ended = world.pause_at("destroy:remove", leave, "destroy", "--force", "foo")
    assert ended.code == 6
    world.farm.mend("h1")
    assert world.rows("foo") == []
    if how != "undestroy":
        ran = world.mngr(how, *(["foo"] if how == "destroy" else []))
        assert "foo" in ran.out
        assert [grave["problem"] for grave in world.graves()] == [None]
        assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@cases("step", RESTORE, ("reserve", "work_dir", "commit"))
def test_undestroy(world: World, step: str) -> None:
    before = world.make("foo@h1")
    world.mngr("destroy", "--force", "foo")
    ended = world.cut_at(f"undestroy:{step}", "h1", "undestroy", "foo")
    assert ended.code == 6, ended
    world.farm.mend("h1")
    assert [grave["problem"] for grave in world.graves()] == [None]
    if step not in ("reserve",):
        assert [row["state_reason"] for row in world.rows("foo")] == ["create_interrupted"]
        world.mngr("gc")
    assert world.rows("foo") == []
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []


@cases("step", RESTORE[1:], ("prepare",))
def test_a_half_restored_agent_cannot_replace_its_grave(world: World, step: str) -> None:
    before = world.make("foo@h1")
    world.mngr("destroy", "--force", "foo")
    world.cut_at(f"undestroy:{step}", "h1", "undestroy", "foo")
    world.farm.mend("h1")
    world.mngr("destroy", "foo")
    world.mngr("undestroy", "foo")
    assert world.look("foo") == before


@cases("step", RESTORE, ("reserve", "commit"))
def test_clone(world: World, step: str) -> None:
    before = world.make("foo@h1")
    ended = world.cut_at(f"clone:{step}", "h2", "clone", "foo", "bar@h2")
    assert ended.code == 6, ended
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
def test_migrate(world: World, step: str, host: str) -> None:
    before = world.make("foo@h1")
    agent_id = world.mngr.get_agent("foo")["id"]
    ended = world.cut_at(f"migrate:{step}", host, "migrate", "foo", "@h2")
    world.farm.mend(host)
    assert ended.code in (0, 6), ended
    whole = [
        row for row in world.rows("foo") if row["state_reason"] not in ("create_interrupted", "destroy_interrupted")
    ]
    assert len(whole) <= 1
    assert whole or [row["state_reason"] for row in world.rows("foo")].count("destroy_interrupted") == 1
    world.mngr("gc")
    assert world.mngr.run_json("gc", "--dry-run")["results"] == []
    rows = world.rows("foo")
    assert len(rows) <= 1
    if not rows:
        world.mngr("undestroy", "foo")
    assert world.mngr.get_agent("foo")["id"] == agent_id
    assert world.look("foo") == before


@cases("step", ("save", "work_dir", "commit"), ("work_dir",))
def test_a_migrate_that_was_cut_off_can_be_repeated(world: World, step: str) -> None:
    before = world.make("foo@h1")
    ended = world.cut_at(f"migrate:{step}", "h2", "migrate", "foo", "@h2")
    assert ended.code == 6
    world.farm.mend("h2")
    world.mngr("migrate", "foo", "@h2")
    assert (world.mngr.get_agent("foo")["host"], world.mngr.get_agent("foo")["state"]) == ("h2", "RUNNING")
    assert world.look("foo") == before
    assert world.mngr.run_json("gc", "--dry-run")["results"] == [] and world.graves() == []


def test_a_stream_that_is_cut_off_is_no_agent(world: World) -> None:
    world.make("foo@h1")
    world.mngr("exec", "foo", "--", "sh", "-c", "head -c 60000000 /dev/urandom >big.bin")
    before, home = world.look("foo"), world.mngr.home
    stage = home / "cache" / "stage"

    def size(root: Path) -> int:
        try:
            return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
        except OSError:
            return 0

    ended = world.cut_when(lambda: size(stage) > 1_000_000, "h1", "destroy", "--force", "foo")
    assert ended.code == 6 and list(stage.iterdir()) == []
    world.farm.mend("h1")
    assert world.graves() == [] and len(world.rows("foo")) == 1
    world.mngr("destroy", "--force", "foo")
    there = world.farm.home("h2") / ".mngr" / "agents"
    ended = world.cut_when(lambda: size(there) > 1_000_000, "h2", "undestroy", "foo", "--on", "@h2")
    assert ended.code == 6
    world.farm.mend("h2")
    world.mngr("gc")
    assert list((world.farm.home("h2") / ".mngr" / "work").iterdir()) == []
    world.mngr("undestroy", "foo", "--on", "@h2")
    assert world.look("foo") == before


def test_two_at_once_lose_nothing(world: World) -> None:
    before = world.make("foo@h1")
    codes: list[int] = []

    def run(*words: str) -> None:
        codes.append(world.mngr(*words, code=None).code)

    for words in (("destroy", "--force", "foo"), ("undestroy", "foo")) * (10 if IS_FULL_SCALE else 1):
        codes.clear()
        both = [threading.Thread(target=run, args=words) for _ in range(3)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()
        assert codes.count(0) >= 1, codes
    assert world.look("foo") == before
    assert run_git(world.mngr.repo, "worktree", "list").count("\n") == 0
