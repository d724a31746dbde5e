"""kill -9 at every step: what is left is shown by `list` and cleaned by `gc`, and no work is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, run_git, wait_for

pytestmark = pytest.mark.hosts

PLUGIN = """
import json, os, signal
import pluggy

@pluggy.HookimplMarker("mngr")
def mngr_step(operation, step, agent):
    if os.environ.get("STEPS"):
        with open(os.environ["STEPS"], "a") as file:
            file.write(json.dumps([operation, step]) + "\\n")
    if os.environ.get("KILL_AT") == f"{operation}:{step}":
        os.kill(os.getpid(), signal.SIGKILL)
"""
CREATE = ("reserve", "work_dir", "dirty", "prepare", "set_up", "launch", "commit")
DESTROY = ("mark", "end", "save", "remove", "bury")
RESTORE = ("reserve", "agent_files", "work_dir", "prepare", "set_up", "commit")
WORK = "printf 'work' >made; exec sleep 1000"


@pytest.fixture
def killer(mngr: MngrProgram, tmp_path: Path) -> MngrProgram:
    """The program with a plugin that kills it at the step named in KILL_AT."""
    site = tmp_path / "site"
    info = site / "killer-1.dist-info"
    info.mkdir(parents=True)
    (info / "entry_points.txt").write_text("[mngr]\nkiller = killer_plugin\n")
    (site / "killer_plugin.py").write_text(PLUGIN)
    mngr.env["PYTHONPATH"] = str(site)
    return mngr


def kill_at(mngr: MngrProgram, step: str, *words: str) -> None:
    assert mngr(*words, code=None, env={"KILL_AT": step}).code == -signal.SIGKILL


def traces(mngr: MngrProgram) -> list[str]:
    """Everything of an agent that lies about."""
    found = [f"worktree {row.split()[0]}" for row in run_git(mngr.repo, "worktree", "list").splitlines()[1:]]
    found += [
        f"branch {name}"
        for name in run_git(mngr.repo, "branch", "--list", "mngr/*", "--format=%(refname)").splitlines()
    ]
    for place in ("agents", "names", "work"):
        if (mngr.home / place).is_dir():
            found += [f"{place} {path.name}" for path in (mngr.home / place).iterdir()]
    if (mngr.home / "tmux.socket").is_symlink():
        found += [f"session {name}" for name in mngr.run_tmux("list-sessions", "-F", "#{session_name}").split()]
    for place in ("graveyard", "snapshots"):
        found += [f"part {path}" for path in (mngr.home / place).glob("*.part")] + [
            f"part {p}" for p in (mngr.home / place).glob(".*")
        ]
    return found


def test_these_are_all_the_steps(killer: MngrProgram, tmp_path: Path) -> None:
    log = tmp_path / "steps"
    env = {"STEPS": str(log)}
    killer("create", "foo", "--", "sleep", "1000", env=env)
    killer("clone", "foo", "bar", env=env)
    killer("snapshot", "create", "foo", "snap", env=env)
    killer("destroy", "--force", "foo", env=env)
    killer("undestroy", "foo", env=env)
    killer("snapshot", "restore", "snap", "baz", env=env)
    seen: dict[str, list[str]] = {}
    for operation, step in map(json.loads, log.read_text().splitlines()):
        seen.setdefault(operation, []).append(step)
    restores = {operation: list(RESTORE) for operation in ("clone", "undestroy", "snapshot restore")}
    assert seen == {"create": list(CREATE), "destroy": list(DESTROY), **restores}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["worktree", "mirror"])
@pytest.mark.parametrize("step", CREATE)
def test_create(killer: MngrProgram, step: str, mode: str) -> None:
    kill_at(killer, f"create:{step}", "create", "foo", "--transfer", mode, "--", "sh", "-c", WORK)
    left = traces(killer)
    shown = killer.list_agents()
    if step == "reserve":
        assert (left, shown) == ([], [])
        return
    assert [(agent["name"], agent["state"]) for agent in shown] == [("foo", "FAILED")]
    assert shown[0]["state_reason"] == "create_interrupted"
    assert all(shown[0]["id"] in trace or "foo" in trace for trace in left)
    if step == "commit":
        wait_for((killer.get_work_dir("foo") / "made").exists)
    assert "would clean: interrupted create foo" in killer("gc", "--dry-run").out
    assert traces(killer) == left
    assert "cleaned: interrupted create foo" in killer("gc").out
    assert traces(killer) == []
    if step == "commit":  # it ran, so it may have worked
        killer("undestroy", "foo")
        assert (killer.get_work_dir("foo") / "made").read_text() == "work"
    else:
        assert list((killer.home / "graveyard").iterdir()) == []
        killer("create", "foo", "--transfer", mode, "--", "true")


def test_an_interrupted_create_can_also_be_destroyed(killer: MngrProgram) -> None:
    kill_at(killer, "create:prepare", "create", "foo", "--", "true")
    killer("destroy", "foo")
    assert traces(killer) == []


def test_a_branch_that_an_interrupted_create_did_not_make_stays(killer: MngrProgram) -> None:
    kill_at(killer, "create:work_dir", "create", "foo", "--", "true")
    run_git(killer.repo, "branch", "mngr/foo")
    log = killer.repo / ".git" / "logs" / "refs" / "heads" / "mngr" / "foo"
    old, _, new = log.read_text().partition("> ")
    log.write_text(f"{old}> 1700000000 {new.partition(' ')[2]}")  # long before the create
    killer("gc")
    assert traces(killer) == ["branch refs/heads/mngr/foo"]


def state(work: Path) -> dict[str, Any]:
    files = {p.relative_to(work): p.read_bytes() for p in work.rglob("*") if p.is_file() and p.name != ".git"}
    return {
        "files": files,
        "head": run_git(work, "rev-parse", "HEAD"),
        "index": run_git(work, "ls-files", "-s"),
        "status": run_git(work, "status", "-s"),
    }


def make_work(mngr: MngrProgram) -> tuple[Path, dict[str, Any]]:
    """An agent at work with a commit, something staged and something not."""
    mngr("create", "foo", "--", "sh", "-c", WORK)
    work = mngr.get_work_dir("foo")
    wait_for(lambda: (work / "made").exists() and (work / "made").read_text() == "work")
    (work / "committed").write_text("c")
    run_git(work, "add", "committed")
    run_git(work, "commit", "-q", "-m", "mine")
    (work / "staged").write_text("s")
    run_git(work, "add", "staged")
    (work / "src" / "app.py").unlink()
    return work, state(work)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("finisher", ["gc", "destroy"])
@pytest.mark.parametrize("step", DESTROY)
def test_destroy(killer: MngrProgram, step: str, finisher: str) -> None:
    work, before = make_work(killer)
    kill_at(killer, f"destroy:{step}", "destroy", "--force", "foo")
    agent = killer.get_agent("foo")
    if step == "mark":
        assert agent["state"] == "RUNNING" and state(work) == before
        killer("gc")
        assert killer.get_agent("foo")["state"] == "RUNNING"
        finisher = "destroy"
    else:
        assert (agent["state"], agent["state_reason"]) == ("STOPPED", "destroy_interrupted")
    if finisher == "gc":
        assert "would clean: interrupted destroy foo" in killer("gc", "--dry-run").out
        assert "cleaned: interrupted destroy foo" in killer("gc").out
    else:
        killer("destroy", "--force", "foo")
    assert traces(killer) == ["branch refs/heads/mngr/foo"]  # it holds a commit that no other branch has
    assert killer.list_agents() == [] and killer("gc").err == "nothing to clean up\n"
    killer("undestroy", "foo")
    assert state(work) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE)
def test_undestroy(killer: MngrProgram, step: str) -> None:
    work, before = make_work(killer)
    killer("destroy", "--force", "foo")
    run_git(killer.repo, "branch", "-q", "-D", "mngr/foo")
    kill_at(killer, f"undestroy:{step}", "undestroy", "foo")
    killer("gc")
    assert traces(killer) == [] and killer.list_agents() == []
    killer("undestroy", "foo")
    assert state(work) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE[1:])
def test_a_half_restored_agent_cannot_replace_its_grave(killer: MngrProgram, step: str) -> None:
    work, before = make_work(killer)
    killer("destroy", "--force", "foo")
    kill_at(killer, f"undestroy:{step}", "undestroy", "foo")
    assert killer.get_agent("foo")["state_reason"] == "create_interrupted"
    kill_at(killer, "destroy:end", "destroy", "foo")
    killer("destroy", "foo")
    assert traces(killer) == ["branch refs/heads/mngr/foo"]
    killer("undestroy", "foo")
    assert state(work) == before


def test_a_branch_that_was_kept_outlives_an_interrupted_undestroy(killer: MngrProgram) -> None:
    work, before = make_work(killer)
    killer("destroy", "--force", "foo")
    run_git(killer.repo, "merge", "-q", "mngr/foo")  # and from here on it could be deleted without a loss
    kill_at(killer, "undestroy:commit", "undestroy", "foo")
    killer("gc")
    assert traces(killer) == ["branch refs/heads/mngr/foo"]
    killer("undestroy", "foo")
    assert state(work) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE)
def test_clone(killer: MngrProgram, step: str) -> None:
    work, before = make_work(killer)
    mine = traces(killer)
    kill_at(killer, f"clone:{step}", "clone", "foo", "bar")
    killer("gc")
    assert sorted(traces(killer)) == sorted(mine)
    assert state(work) == before and killer.get_agent("foo")["state"] == "RUNNING"


def test_killed_at_any_moment(mngr: MngrProgram) -> None:
    """Not only between the steps: wherever the clock says."""
    work, before = make_work(mngr)
    moments = 60 if IS_FULL_SCALE else 6
    for number in range(moments):
        process = subprocess.Popen(
            [str(BIN_DIR / "mngr"), "destroy", "--force", "foo"],
            cwd=mngr.repo,
            env=mngr.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.04 + 0.2 * number / moments)  # the moment is the subject here
        process.kill()
        process.wait()
        mngr("gc")
        if mngr.list_agents():
            mngr("destroy", "--force", "foo")
        assert traces(mngr) in ([], ["branch refs/heads/mngr/foo"])
        mngr("undestroy", "foo")
        assert state(work) == before
        os.unlink(work / "made")
        mngr("start", "foo")
        wait_for(lambda: (work / "made").exists() and (work / "made").read_text() == "work")
        before = state(work)
