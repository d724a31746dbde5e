"""Tests kill -9 at every step: `list` shows the leftovers, `gc` cleans them up, and no work is lost."""

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


def list_traces(mngr: MngrProgram) -> list[str]:
    """Return everything in the repository, the home and tmux that belongs to an agent."""
    traces = [f"worktree {row.split()[0]}" for row in run_git(mngr.repo, "worktree", "list").splitlines()[1:]]
    traces += [
        f"branch {name}"
        for name in run_git(mngr.repo, "branch", "--list", "mngr/*", "--format=%(refname)").splitlines()
    ]
    for folder in ("agents", "names", "work"):
        if (mngr.home / folder).is_dir():
            traces += [f"{folder} {path.name}" for path in (mngr.home / folder).iterdir()]
    if (mngr.home / "tmux.socket").is_symlink():
        traces += [f"session {name}" for name in mngr.run_tmux("list-sessions", "-F", "#{session_name}").split()]
    for folder in ("trash", "snapshots"):
        traces += [f"part {path}" for path in (mngr.home / folder).glob("*.part")] + [
            f"part {path}" for path in (mngr.home / folder).glob(".*")
        ]
    return traces


def test_operations_announce_exactly_these_steps(killer: MngrProgram, tmp_path: Path) -> None:
    log = tmp_path / "steps"
    env = {"STEPS": str(log)}
    killer("create", "foo", "--", "sleep", "1000", env=env)
    killer("clone", "foo", "bar", env=env)
    killer("snapshot", "create", "foo", "snap", env=env)
    killer("destroy", "--force", "foo", env=env)
    killer("undestroy", "foo", env=env)
    killer("snapshot", "restore", "snap", "baz", env=env)
    steps: dict[str, list[str]] = {}
    for operation, step in map(json.loads, log.read_text().splitlines()):
        steps.setdefault(operation, []).append(step)
    restores = {operation: list(RESTORE) for operation in ("clone", "undestroy", "snapshot restore")}
    assert steps == {"create": list(CREATE), "destroy": list(DESTROY), **restores}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["worktree", "mirror"])
@pytest.mark.parametrize("step", CREATE)
def test_gc_cleans_up_an_interrupted_create(killer: MngrProgram, step: str, mode: str) -> None:
    kill_at(killer, f"create:{step}", "create", "foo", "--transfer", mode, "--", "sh", "-c", WORK)
    traces = list_traces(killer)
    agents = killer.list_agents()
    if step == "reserve":
        assert (traces, agents) == ([], [])
        return
    assert [(agent["name"], agent["state"]) for agent in agents] == [("foo", "FAILED")]
    assert agents[0]["state_reason"] == "create_interrupted"
    assert all(agents[0]["id"] in trace or "foo" in trace for trace in traces)
    if step == "commit":
        wait_for((killer.get_work_dir("foo") / "made").exists)
    assert "would clean: interrupted create foo" in killer("gc", "--dry-run").out
    assert list_traces(killer) == traces
    assert "cleaned: interrupted create foo" in killer("gc").out
    assert list_traces(killer) == []
    if step == "commit":  # The agent ran, so it may have work.
        killer("undestroy", "foo")
        assert (killer.get_work_dir("foo") / "made").read_text() == "work"
    else:
        assert list((killer.home / "trash").iterdir()) == []
        killer("create", "foo", "--transfer", mode, "--", "true")


def test_an_interrupted_create_can_also_be_destroyed(killer: MngrProgram) -> None:
    kill_at(killer, "create:prepare", "create", "foo", "--", "true")
    killer("destroy", "foo")
    assert list_traces(killer) == []


def test_gc_keeps_a_branch_that_the_interrupted_create_did_not_make(killer: MngrProgram) -> None:
    kill_at(killer, "create:work_dir", "create", "foo", "--", "true")
    run_git(killer.repo, "branch", "mngr/foo")
    log = killer.repo / ".git" / "logs" / "refs" / "heads" / "mngr" / "foo"
    old, _, new = log.read_text().partition("> ")
    log.write_text(f"{old}> 1700000000 {new.partition(' ')[2]}")  # long before the create
    killer("gc")
    assert list_traces(killer) == ["branch refs/heads/mngr/foo"]


def read_state(work_dir: Path) -> dict[str, Any]:
    """Return the files, the head, the index and the status of a work dir."""
    files = {
        path.relative_to(work_dir): path.read_bytes()
        for path in work_dir.rglob("*")
        if path.is_file() and path.name != ".git"
    }
    return {
        "files": files,
        "head": run_git(work_dir, "rev-parse", "HEAD"),
        "index": run_git(work_dir, "ls-files", "-s"),
        "status": run_git(work_dir, "status", "-s"),
    }


def make_work(mngr: MngrProgram) -> tuple[Path, dict[str, Any]]:
    """Create an agent whose work dir has a commit, a staged and an unstaged change."""
    mngr("create", "foo", "--", "sh", "-c", WORK)
    work_dir = mngr.get_work_dir("foo")
    wait_for(lambda: (work_dir / "made").exists() and (work_dir / "made").read_text() == "work")
    (work_dir / "committed").write_text("c")
    run_git(work_dir, "add", "committed")
    run_git(work_dir, "commit", "-q", "-m", "mine")
    (work_dir / "staged").write_text("s")
    run_git(work_dir, "add", "staged")
    (work_dir / "src" / "app.py").unlink()
    return work_dir, read_state(work_dir)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("finisher", ["gc", "destroy"])
@pytest.mark.parametrize("step", DESTROY)
def test_an_interrupted_destroy_can_be_finished(killer: MngrProgram, step: str, finisher: str) -> None:
    work_dir, before = make_work(killer)
    kill_at(killer, f"destroy:{step}", "destroy", "--force", "foo")
    agent = killer.get_agent("foo")
    if step == "mark":
        assert agent["state"] == "RUNNING" and read_state(work_dir) == before
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
    assert list_traces(killer) == ["branch refs/heads/mngr/foo"]  # The branch holds a commit that no other branch has.
    assert killer.list_agents() == [] and killer("gc").err == "nothing to clean up\n"
    killer("undestroy", "foo")
    assert read_state(work_dir) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE)
def test_an_interrupted_undestroy_can_be_repeated(killer: MngrProgram, step: str) -> None:
    work_dir, before = make_work(killer)
    killer("destroy", "--force", "foo")
    run_git(killer.repo, "branch", "-q", "-D", "mngr/foo")
    kill_at(killer, f"undestroy:{step}", "undestroy", "foo")
    killer("gc")
    assert list_traces(killer) == [] and killer.list_agents() == []
    killer("undestroy", "foo")
    assert read_state(work_dir) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE[1:])
def test_destroying_a_half_restored_agent_keeps_its_trash_entry(killer: MngrProgram, step: str) -> None:
    work_dir, before = make_work(killer)
    killer("destroy", "--force", "foo")
    kill_at(killer, f"undestroy:{step}", "undestroy", "foo")
    assert killer.get_agent("foo")["state_reason"] == "create_interrupted"
    kill_at(killer, "destroy:end", "destroy", "foo")
    killer("destroy", "foo")
    assert list_traces(killer) == ["branch refs/heads/mngr/foo"]
    killer("undestroy", "foo")
    assert read_state(work_dir) == before


def test_an_interrupted_undestroy_keeps_an_existing_branch(killer: MngrProgram) -> None:
    work_dir, before = make_work(killer)
    killer("destroy", "--force", "foo")
    run_git(killer.repo, "merge", "-q", "mngr/foo")  # From here on, deleting the branch would lose nothing.
    kill_at(killer, "undestroy:commit", "undestroy", "foo")
    killer("gc")
    assert list_traces(killer) == ["branch refs/heads/mngr/foo"]
    killer("undestroy", "foo")
    assert read_state(work_dir) == before


@pytest.mark.sampled(6)
@pytest.mark.parametrize("step", RESTORE)
def test_an_interrupted_clone_leaves_no_trace(killer: MngrProgram, step: str) -> None:
    work_dir, before = make_work(killer)
    traces_before = list_traces(killer)
    kill_at(killer, f"clone:{step}", "clone", "foo", "bar")
    killer("gc")
    assert sorted(list_traces(killer)) == sorted(traces_before)
    assert read_state(work_dir) == before and killer.get_agent("foo")["state"] == "RUNNING"


def test_destroy_killed_at_any_moment_loses_no_work(mngr: MngrProgram) -> None:
    """The kill comes at various times, not only between the steps."""
    work_dir, before = make_work(mngr)
    moments = 60 if IS_FULL_SCALE else 6
    for number in range(moments):
        process = subprocess.Popen(
            [str(BIN_DIR / "mngr"), "destroy", "--force", "foo"],
            cwd=mngr.repo,
            env=mngr.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.04 + 0.2 * number / moments)  # The test is about the moment of the kill.
        process.kill()
        process.wait()
        mngr("gc")
        if mngr.list_agents():
            mngr("destroy", "--force", "foo")
        assert list_traces(mngr) in ([], ["branch refs/heads/mngr/foo"])
        mngr("undestroy", "foo")
        assert read_state(work_dir) == before
        os.unlink(work_dir / "made")
        mngr("start", "foo")
        wait_for(lambda: (work_dir / "made").exists() and (work_dir / "made").read_text() == "work")
        before = read_state(work_dir)
