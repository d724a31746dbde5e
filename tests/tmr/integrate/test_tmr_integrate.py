"""`mngr tmr integrate`: builds a passing branch from branches with conflicts of every kind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.contract.mngr_program import clean_up, new_env
from tests.conftest import MngrProgram, run_git
from tests.support.own_runs import adopt_run
from tests.support.reduce_judge import judge
from tests.support.reduce_world import World, make_world, run_tests
from tests.support.repos import list_refs, read_tree, status

pytestmark = pytest.mark.agents

BRANCH = "refs/heads/mngr/r/integrated"
TRAILERS = "%(trailers:key=Mngr-{},valueonly,separator=%x2C)"
KEYS = ("Change", "Task", "Agent", "Receipt")


@dataclass
class Made:
    """A world, the user's repository before the integration, and the first report."""

    world: World
    mngr: MngrProgram
    before: dict[str, object]
    data: dict[str, Any]

    def __call__(self, *words: str, code: int = 4) -> dict[str, Any]:
        report: dict[str, Any] = self.mngr(
            "tmr", "integrate", "r", *words, "--format", "json", code=code, timeout=900
        ).parse_json()
        return report


def make(root: Path, branches: int, seed: int = 7) -> Made:
    """Return an integrated world whose user has unfinished work in the checkout."""
    world = make_world(root / "repo", branches=branches, seed=seed)
    env = new_env(root)
    adopt_run(Path(env["MNGR_HOME"]), world.run)
    add_user_work(world.root)
    made = Made(world, MngrProgram(world.root, Path(env["MNGR_HOME"]), env), state(world.root), {})
    made.data = made()
    return made


def add_user_work(repo: Path) -> None:
    """Create a branch, a stash, and staged, edited and new files of the user."""
    author_args = ("-c", "user.name=U", "-c", "user.email=u@example.invalid")
    run_git(repo, "branch", "side")
    (repo / "README.md").write_text("# Stashed\n")
    run_git(repo, *author_args, "stash", "push", "-q")
    (repo / "shop" / "money.py").write_text("staged = True\n")
    run_git(repo, "add", "shop/money.py")
    (repo / "shop" / "money.py").write_text("edited = True\n")
    (repo / "new.txt").write_text("new\n")


def state(repo: Path) -> dict[str, object]:
    """Return everything that an integration must not change."""
    files = {path: entry for path, entry in read_tree(repo).items() if not path.startswith(".mngr")}
    return {
        "refs": {name: target for name, target in list_refs(repo).items() if name != BRANCH},
        "files": files,
        "status": status(repo),
        "index": hashlib.sha256((repo / ".git" / "index").read_bytes()).hexdigest(),
        "stash": run_git(repo, "stash", "list"),
        "head": (repo / ".git" / "HEAD").read_text(),
        "config": (repo / ".git" / "config").read_text(),
        "worktrees": run_git(repo, "worktree", "list"),
    }


def list_failing(world: World, checkout: Path, commit: str) -> set[str]:
    """Return the tests that fail at a commit, according to a separate pytest run."""
    if not checkout.exists():
        run_git(world.root, "clone", "-q", "--no-checkout", str(world.root), str(checkout))
    run_git(checkout, "fetch", "-q", "origin", commit)
    run_git(checkout, "checkout", "-q", "--detach", commit)
    return {test for test, passed in run_tests(checkout).items() if not passed}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Return an integrated world of twelve branches.

    Two conflict in the text, one in its meaning, three are the same, and one breaks the suite.
    """
    root = tmp_path_factory.mktemp("small")
    yield make(root, 12)
    clean_up(root)


def test_the_branch_has_every_compatible_change_and_names_the_rest(small: Made) -> None:
    data = small.data
    assert judge(small.world, data) == []
    assert (data["verdict"], data["regressions"], data["still_failing"]) == ("green", [], [])
    assert run_git(small.world.root, "rev-parse", BRANCH) == data["head"] == data["delivered"]
    assert data["onto"] == data["base"] == small.world.base


def test_each_commit_names_its_tasks_and_breaks_no_test(small: Made, tmp_path: Path) -> None:
    world, rows = small.world, small.data["commits"]
    kinds = [row["kind"] for row in rows]
    assert kinds == ["test"] + ["fix"] * (len(rows) - 1) and rows[0]["subject"].startswith("[TEST/DOC] ")
    log_format = "%H%x00" + "%x00".join(TRAILERS.format(key) for key in KEYS)
    lines = run_git(world.root, "log", "--reverse", f"--format={log_format}", f"{world.base}..{BRANCH}").splitlines()
    failing = world.red
    for row, line in zip(rows, lines, strict=True):
        commit, changes, tasks, agents, receipts = (field.split(",") for field in line.split("\0"))
        assert ([row["commit"]], sorted(row["changes"])) == (commit, sorted(changes))
        assert set(tasks) <= world.tasks.keys() and {f"tmr-r-{task}" for task in tasks} == set(agents)
        assert sorted(receipt.split(" ")[0] for receipt in receipts) == sorted(tasks)
        failing_now = list_failing(world, tmp_path / "checkout", row["commit"])
        assert failing_now <= failing or row["kind"] == "test", f"{row['subject']}: {failing_now - failing}"
        assert failing_now.isdisjoint(row["fixed_tests"]), f"{row['subject']} turns {row['fixed_tests']}"
        failing = failing_now
    assert failing == set() and len(run_tests(tmp_path / "checkout")) >= world.tests


def test_integrate_does_not_touch_the_users_work(small: Made) -> None:
    assert state(small.world.root) == small.before


def test_a_repeated_integration_is_the_same_and_a_task_can_be_excluded(small: Made, tmp_path: Path) -> None:
    repeated = small()
    assert (repeated["head"], repeated["excluded"]) == (small.data["head"], small.data["excluded"])
    assert repeated["runs"]["tests"] == 0
    task = next(slug for slug, branch in small.world.tasks.items() if branch.kind == "harmless")
    without = small("--without", task, "--reason", "not now")
    excluded = [row for row in without["excluded"] if row["why"] == "requested"]
    assert excluded and all(row["tasks"] == [task] and "not now" in row["reason"] for row in excluded)
    assert task not in run_git(small.world.root, "log", "--format=%B", f"{small.world.base}..{BRANCH}")
    assert list_failing(small.world, tmp_path / "checkout", without["head"]) == set()
    assert without["runs"]["tests"] < small.data["runs"]["tests"]
    assert state(small.world.root) == small.before


@pytest.mark.full
@pytest.mark.parametrize("seed", [8, 9])
def test_commits_do_not_depend_on_the_directory(tmp_path: Path, seed: int) -> None:
    directories = [tmp_path / "one", tmp_path / "another-place" / "deeper"]
    for directory in directories:
        directory.mkdir(parents=True)
    first, second = (make(directory, 12, seed) for directory in directories)
    assert judge(first.world, first.data) == []
    for name in ("head", "tree", "commits", "excluded", "still_failing"):
        assert first.data[name] == second.data[name]
    clean_up(tmp_path)


@pytest.mark.full
def test_a_hundred_branches_are_integrated(tmp_path: Path) -> None:
    made = make(tmp_path, 100)
    world, data = made.world, made.data
    assert judge(world, data) == []
    assert (data["verdict"], data["regressions"], data["still_failing"]) == ("green", [], [])
    assert list_failing(world, tmp_path / "checkout", data["head"]) == set()
    assert state(world.root) == made.before
    task = next(slug for slug, branch in world.tasks.items() if branch.kind == "harmless")
    without = made("--without", task)
    assert without["seconds"] < data["seconds"] / 10
    assert list_failing(world, tmp_path / "checkout", without["head"]) == set()
    clean_up(tmp_path)


@pytest.mark.full
def test_the_generated_world_has_the_described_conflicts(tmp_path: Path) -> None:
    """Each branch passes alone. Branches with conflicting meaning merge, but fail together."""
    world = make_world(tmp_path / "repo", branches=30)
    source, checkout = Path(world.run.repo), tmp_path / "checkout"
    run_git(source, "worktree", "add", "-q", "--detach", str(checkout), world.base)
    assert {test for test, passed in run_tests(checkout).items() if not passed} == world.red
    for slug, branch in world.tasks.items():
        run_git(checkout, "checkout", "-q", world.commits[slug][-1])
        failing = {test for test, passed in run_tests(checkout).items() if not passed}
        assert branch.test not in failing and bool(failing - world.red) == (branch.kind == "breaks"), slug
    pairs = [world.members(branch.group) for branch in world.tasks.values() if branch.kind == "semantic"]
    assert pairs
    for first, second in pairs:
        ours, theirs = (world.commits[slug][-1] for slug in (first, second))
        merged = run_git(source, "merge-tree", "--write-tree", ours, theirs)
        run_git(checkout, "read-tree", "--reset", "-u", merged)
        assert {test for test, passed in run_tests(checkout).items() if not passed} - world.red
        run_git(checkout, "reset", "-q", "--hard")
