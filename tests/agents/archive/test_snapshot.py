"""Tests of `mngr snapshot`, run as a program."""

from __future__ import annotations

import json

from tests.agents.archive.test_destroy import make
from tests.conftest import MngrProgram, run_git, wait_for


def test_a_snapshot_of_a_running_agent_can_be_restored_as_a_second_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--label", "team=red", "--", "sleep", "1000")
    work = mngr.get_work_dir("foo")
    (work / "draft.txt").write_text("first")
    (work / "README.md").write_text("changed\n")
    run_git(work, "add", "README.md")
    result = mngr("snapshot", "create", "foo", "before")
    assert result.out == "before is a snapshot of foo\n" and "foo was running" in result.err
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    (work / "draft.txt").write_text("second")
    agent = mngr.run_json("snapshot", "restore", "before", "bar")["agents"][0]
    assert (agent["name"], agent["state"], agent["branch"], agent["labels"]) == (
        "bar",
        "RUNNING",
        "mngr/bar",
        {"team": "red"},
    )
    restored_dir = mngr.get_work_dir("bar")
    assert (restored_dir / "draft.txt").read_text() == "first" and (work / "draft.txt").read_text() == "second"
    assert run_git(restored_dir, "status", "--porcelain") == "M  README.md\n?? draft.txt"
    assert agent["id"] != mngr.get_agent("foo")["id"]


def test_a_snapshot_of_a_destroyed_agent_restores_it_under_its_old_name(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "a").write_text("a")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    mngr("snapshot", "create", "foo", "kept")
    mngr("destroy", "foo")
    run_git(mngr.repo, "branch", "-q", "-D", "mngr/foo")
    mngr("snapshot", "restore", "kept", "--no-start")
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    assert (mngr.get_work_dir("foo") / "a").read_text() == "a"
    assert run_git(mngr.get_work_dir("foo"), "log", "-1", "--format=%s") == "mine"


def test_snapshots_can_be_listed_and_destroyed(mngr: MngrProgram) -> None:
    make(mngr)
    assert "there are no snapshots" in mngr("snapshot", "list").out
    name = mngr.run_json("snapshot", "create", "foo")["snapshots"][0]["name"]
    assert name.startswith("foo-2")
    mngr("snapshot", "create", "foo", "two")
    result = mngr("snapshot", "create", "foo", "two", code=1)
    assert "there is already a snapshot called 'two'" in result.err
    rows = mngr.run_json("snapshot", "list")["snapshots"]
    assert [(row["name"], row["agent"], row["was_running"]) for row in rows] == [
        (name, "foo", False),
        ("two", "foo", False),
    ]
    result = mngr("snapshot", "destroy", "two", "three", code=4)
    assert result.out == "deleted the snapshot two\n" and "there is no snapshot 'three'" in result.err
    assert [row["name"] for row in mngr.run_json("snapshot", "list")["snapshots"]] == [name]
    mngr("snapshot", "restore", "two", code=1)
    mngr("snapshot", "create", "foo", "../out", code=2)


def test_a_failed_restore_of_a_snapshot_leaves_nothing(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "a").write_text("a")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    mngr("snapshot", "create", "foo", "kept")
    run_git(mngr.repo, "branch", "mngr/bar")
    result = mngr("snapshot", "restore", "kept", "bar", code=1)
    assert "there is already a branch 'mngr/bar'" in result.err
    assert run_git(mngr.repo, "branch", "--list", "mngr/bar") == "mngr/bar"  # The branch existed before the restore.
    meta = mngr.home / "snapshots" / "kept" / "meta.json"
    broken = json.loads(meta.read_text())
    broken["record"]["command"] = ["no-such-program"]
    meta.write_text(json.dumps(broken))
    mngr("snapshot", "restore", "kept", "baz", code=1)
    assert run_git(mngr.repo, "branch", "--list", "mngr/baz") == ""
    mngr("destroy", "foo")
    assert mngr.list_agents() == [] and list((mngr.home / "work").iterdir()) == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0


def test_an_agent_that_writes_all_the_time_can_be_saved_and_restored(mngr: MngrProgram) -> None:
    mngr(
        "create",
        "foo",
        "--",
        "sh",
        "-c",
        "i=0; while :; do i=$((i+1)); echo $i >f$((i%5)); rm -f f$(((i+2)%5)); done",
    )
    wait_for(lambda: list(mngr.get_work_dir("foo").glob("f*")))
    mngr("snapshot", "create", "foo", "busy")
    mngr("snapshot", "restore", "busy", "bar", "--no-start")
    assert run_git(mngr.get_work_dir("bar"), "rev-parse", "HEAD") == run_git(mngr.repo, "rev-parse", "HEAD")


def test_create_can_start_from_a_snapshot(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "draft.txt").write_text("first")
    mngr("snapshot", "create", "foo", "before")
    agent = mngr.run_json("create", "bar", "--snapshot", "before")["agents"][0]
    assert (agent["name"], agent["branch"]) == ("bar", "mngr/bar")
    assert (mngr.get_work_dir("bar") / "draft.txt").read_text() == "first"
    assert (
        "--count cannot be combined with --snapshot"
        in mngr("create", "baz", "--snapshot", "before", "--count", "2", code=2).err
    )
