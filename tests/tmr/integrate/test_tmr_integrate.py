"""`mngr tmr integrate`: of branches with conflicts of every sort one that is green and holds all that can be held."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.program import clean_up, new_env
from tests.conftest import MngrProgram, run_git
from tests.support.reduce_judge import judge
from tests.support.reduce_world import World, make_world, run_tests
from tests.support.repos import list_refs, read_tree, status

pytestmark = pytest.mark.agents

BRANCH = "refs/heads/mngr/r/integrated"
TRAILERS = "%(trailers:key=Mngr-{},valueonly,separator=%x2C)"
KEYS = ("Change", "Task", "Agent", "Receipt")


@dataclass
class Made:
    """A world, what was in the user's repository before, and what the first integration said."""

    world: World
    mngr: MngrProgram
    before: dict[str, object]
    data: dict[str, Any]

    def __call__(self, *words: str, code: int = 4) -> dict[str, Any]:
        found: dict[str, Any] = self.mngr(
            "tmr", "integrate", "r", *words, "--format", "json", code=code, timeout=900
        ).parse_json()
        return found


def make(root: Path, branches: int, seed: int = 7) -> Made:
    """A world in which the user is at work, integrated."""
    world = make_world(root / "repo", branches=branches, seed=seed)
    env = new_env(root)
    mine(world.root)
    made = Made(world, MngrProgram(world.root, Path(env["MNGR_HOME"]), env), state(world.root), {})
    made.data = made()
    return made


def mine(repo: Path) -> None:
    """Things that are nobody's business: a branch, a stash, something staged, edited and new."""
    who = ("-c", "user.name=U", "-c", "user.email=u@example.invalid")
    run_git(repo, "branch", "side")
    (repo / "README.md").write_text("# Stashed\n")
    run_git(repo, *who, "stash", "push", "-q")
    (repo / "shop" / "money.py").write_text("staged = True\n")
    run_git(repo, "add", "shop/money.py")
    (repo / "shop" / "money.py").write_text("edited = True\n")
    (repo / "new.txt").write_text("new\n")


def state(repo: Path) -> dict[str, object]:
    """All that an integration must leave alone."""
    files = {path: found for path, found in read_tree(repo).items() if not path.startswith(".mngr")}
    return {
        "refs": {name: to for name, to in list_refs(repo).items() if name != BRANCH},
        "files": files,
        "status": status(repo),
        "index": hashlib.sha256((repo / ".git" / "index").read_bytes()).hexdigest(),
        "stash": run_git(repo, "stash", "list"),
        "head": (repo / ".git" / "HEAD").read_text(),
        "config": (repo / ".git" / "config").read_text(),
        "worktrees": run_git(repo, "worktree", "list"),
    }


def red_at(world: World, place: Path, commit: str) -> set[str]:
    """What is red at a commit, by a pytest of our own."""
    if not place.exists():
        run_git(world.root, "clone", "-q", "--no-checkout", str(world.root), str(place))
    run_git(place, "fetch", "-q", "origin", commit)
    run_git(place, "checkout", "-q", "--detach", commit)
    return {test for test, passed in run_tests(place).items() if not passed}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Twelve branches: two conflicts in the text, one in what is meant, three the same, one that breaks the suite."""
    root = tmp_path_factory.mktemp("small")
    yield make(root, 12)
    clean_up(root)


def test_all_that_can_be_held_is_and_the_rest_is_named(small: Made) -> None:
    data = small.data
    assert judge(small.world, data) == []
    assert (data["verdict"], data["red"], data["red_before"]) == ("green", [], [])
    assert run_git(small.world.root, "rev-parse", BRANCH) == data["head"] == data["delivered"]
    assert data["onto"] == data["base"] == small.world.base


def test_each_commit_says_whose_it_is_and_none_makes_it_redder(small: Made, tmp_path: Path) -> None:
    world, rows = small.world, small.data["commits"]
    kinds = [row["kind"] for row in rows]
    assert kinds == ["test"] + ["fix"] * (len(rows) - 1) and rows[0]["subject"].startswith("[TEST/DOC] ")
    said = "%H%x00" + "%x00".join(TRAILERS.format(key) for key in KEYS)
    lines = run_git(world.root, "log", "--reverse", f"--format={said}", f"{world.base}..{BRANCH}").splitlines()
    red = world.red
    for row, line in zip(rows, lines, strict=True):
        commit, changes, tasks, agents, receipts = (field.split(",") for field in line.split("\0"))
        assert ([row["commit"]], sorted(row["changes"])) == (commit, sorted(changes))
        assert set(tasks) <= world.tasks.keys() and {f"tmr-r-{task}" for task in tasks} == set(agents)
        assert sorted(receipt.split(" ")[0] for receipt in receipts) == sorted(tasks)
        now = red_at(world, tmp_path / "checkout", row["commit"])
        assert now <= red or row["kind"] == "test", f"{row['subject']}: {now - red}"
        assert now.isdisjoint(row["turned"]), f"{row['subject']} turns {row['turned']}"
        red = now
    assert red == set() and len(run_tests(tmp_path / "checkout")) >= world.tests


def test_what_is_the_users_is_not_touched(small: Made) -> None:
    assert state(small.world.root) == small.before


def test_asked_again_it_is_the_same_and_a_task_can_go(small: Made, tmp_path: Path) -> None:
    again = small()
    assert (again["head"], again["left_out"]) == (small.data["head"], small.data["left_out"])
    assert again["runs"]["tests"] == 0
    task = next(slug for slug, one in small.world.tasks.items() if one.kind == "harmless")
    without = small("--without", task, "--reason", "not now")
    gone = [row for row in without["left_out"] if row["why"] == "wish"]
    assert gone and all(row["tasks"] == [task] and "not now" in row["reason"] for row in gone)
    assert task not in run_git(small.world.root, "log", "--format=%B", f"{small.world.base}..{BRANCH}")
    assert red_at(small.world, tmp_path / "checkout", without["head"]) == set()
    assert without["runs"]["tests"] < small.data["runs"]["tests"]
    assert state(small.world.root) == small.before


@pytest.mark.full
@pytest.mark.parametrize("seed", [8, 9])
def test_the_same_commits_wherever_it_is_done(tmp_path: Path, seed: int) -> None:
    places = [tmp_path / "one", tmp_path / "another-place" / "deeper"]
    for place in places:
        place.mkdir(parents=True)
    one, other = (make(place, 12, seed) for place in places)
    assert judge(one.world, one.data) == []
    for name in ("head", "tree", "commits", "left_out", "red_before"):
        assert one.data[name] == other.data[name]
    clean_up(tmp_path)


@pytest.mark.full
def test_a_hundred_branches(tmp_path: Path) -> None:
    made = make(tmp_path, 100)
    world, data = made.world, made.data
    assert judge(world, data) == []
    assert (data["verdict"], data["red"], data["red_before"]) == ("green", [], [])
    assert red_at(world, tmp_path / "checkout", data["head"]) == set()
    assert state(world.root) == made.before
    task = next(slug for slug, one in world.tasks.items() if one.kind == "harmless")
    without = made("--without", task)
    assert without["seconds"] < data["seconds"] / 10
    assert red_at(world, tmp_path / "checkout", without["head"]) == set()
    clean_up(tmp_path)


@pytest.mark.full
def test_the_world_is_what_it_says(tmp_path: Path) -> None:
    """Each branch is right alone; those that mean something else merge, and are red together."""
    world = make_world(tmp_path / "repo", branches=30)
    source, place = Path(world.run.repo), tmp_path / "checkout"
    run_git(source, "worktree", "add", "-q", "--detach", str(place), world.base)
    assert {test for test, passed in run_tests(place).items() if not passed} == world.red
    for slug, one in world.tasks.items():
        run_git(place, "checkout", "-q", world.commits[slug][-1])
        red = {test for test, passed in run_tests(place).items() if not passed}
        assert one.test not in red and bool(red - world.red) == (one.kind == "breaks"), slug
    pairs = [world.members(one.group) for one in world.tasks.values() if one.kind == "semantic"]
    assert pairs
    for first, second in pairs:
        ours, theirs = (world.commits[slug][-1] for slug in (first, second))
        merged = run_git(source, "merge-tree", "--write-tree", ours, theirs)
        run_git(place, "read-tree", "--reset", "-u", merged)
        assert {test for test, passed in run_tests(place).items() if not passed} - world.red
        run_git(place, "reset", "-q", "--hard")
