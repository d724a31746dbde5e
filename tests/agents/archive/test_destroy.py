"""Tests of `mngr destroy`, run as a program."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.conftest import MngrProgram, run_git, wait_for


def make(mngr: MngrProgram, name: str = "foo", *words: str) -> Path:
    """Create an agent, wait for its end and return its work dir."""
    mngr("create", name, *words, "--", "true")
    wait_for(lambda: mngr.get_agent(name)["state"] == "DONE")
    return mngr.get_work_dir(name)


def assert_nothing_is_left(mngr: MngrProgram) -> None:
    """Assert that no agent, name, work dir, worktree or session exists."""
    assert mngr.list_agents() == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    for folder in ("agents", "names", "work"):
        assert list((mngr.home / folder).iterdir()) == []
    assert "foo" not in mngr.run_tmux("list-sessions")


def test_destroy_of_an_unchanged_agent_leaves_only_its_trash_entry(mngr: MngrProgram) -> None:
    make(mngr)
    result = mngr("destroy", "foo")
    assert result.out == "destroyed foo\n" and result.err == ""
    assert_nothing_is_left(mngr)
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""
    trash_dir = next((mngr.home / "trash").iterdir())
    assert sorted(path.name for path in trash_dir.iterdir()) == [
        "agent",
        "meta.json",
        "owner",
    ]  # The repository has the commits already, so no bundle or archive is written.


def test_destroy_of_a_running_agent_needs_force(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    pid = mngr.get_agent("foo")["pid"]
    result = mngr("destroy", "foo", code=1)
    assert "Error: foo is RUNNING" in result.err and "--force" in result.err
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    mngr("rm", "--force", "foo")
    assert not os.path.exists(f"/proc/{pid}")
    assert_nothing_is_left(mngr)


def test_destroy_reports_dirty_and_unpulled_work_as_json_and_keeps_the_branch(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    tip = run_git(work, "rev-parse", "HEAD")
    (work / "more.txt").write_text("m")
    result = mngr("destroy", "foo", "--format", "json")
    row = result.parse_json()["results"][0]
    assert (row["ok"], row["dirty"], row["unpulled"], row["branch_kept"]) == (True, True, 1, "mngr/foo")
    assert Path(row["trash_dir"]).is_dir() and row["ignored_bytes"] == 0
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == tip
    assert_nothing_is_left(mngr)


def test_destroy_reports_dirty_unpulled_and_ignored_work_as_text(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    (work / "more.txt").write_text("m")
    (work / "x.log").write_text("l" * 9000)
    err = mngr("destroy", "foo").err
    assert "foo had uncommitted changes; they are also in the trash" in err
    assert "mngr keeps the branch mngr/foo: it has 1 commit that no other branch has" in err
    assert "12.29 kB of ignored files, which mngr does not keep" in err


def test_destroy_deletes_a_merged_branch(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    run_git(mngr.repo, "merge", "-q", "mngr/foo")
    assert mngr("destroy", "foo").err == ""
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""


def test_destroy_keeps_a_branch_that_existed_before_the_agent(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "mine")
    make(mngr, "foo", "--branch", "mine")
    mngr("destroy", "foo")
    assert run_git(mngr.repo, "branch", "--list", "mine") == "mine"
    assert_nothing_is_left(mngr)


def test_destroy_of_several_agents_reports_each_result(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "3", "--", "sleep", "1000")
    result = mngr("destroy", "--force", "w-1", "nobody", "w-3", code=4)
    assert "destroyed w-1\n" in result.out and "destroyed w-3\n" in result.out
    assert "there is no agent 'nobody'" in result.err
    assert [agent["name"] for agent in mngr.list_agents()] == ["w-2"]
    ids = mngr("list", "--ids").out
    assert mngr("destroy", "--force", "-", stdin=ids).out == "destroyed w-2\n"


def test_an_agent_that_is_named_twice_is_destroyed_once(mngr: MngrProgram) -> None:
    make(mngr)
    agent_id = mngr.get_agent("foo")["id"]
    assert mngr("destroy", "foo", agent_id).out == "destroyed foo\n"


def test_destroy_of_an_agent_with_a_damaged_record_needs_force_and_keeps_its_work_dir(mngr: MngrProgram) -> None:
    work = make(mngr)
    make(mngr, "bar")
    agent_id = mngr.get_agent("foo")["id"]
    record = mngr.home / "agents" / agent_id / "agent.json"
    record.write_text('{"v": 1, "id":')
    result = mngr("destroy", "foo", code=1)
    assert "UNKNOWN" in result.err and "--force" in result.err
    result = mngr("destroy", "--force", agent_id)
    assert str(work) in result.err and work.is_dir()  # Without a record mngr does not know what belongs to the agent.
    assert [agent["name"] for agent in mngr.list_agents()] == ["bar"]
    trash_dir = mngr.home / "trash" / agent_id
    assert (trash_dir / "agent" / "agent.json").read_text() == '{"v": 1, "id":'
    assert [path.name for path in (mngr.home / "names").iterdir()] == ["bar"]


def test_destroy_removes_nothing_when_the_agent_cannot_be_saved(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    (mngr.home / "trash").rmdir()
    (mngr.home / "trash").write_text("in the way")
    result = mngr("destroy", "foo", code=1)
    assert "cannot save foo" in result.err
    assert (work / "new.txt").read_text() == "n"
    assert mngr.get_agent("foo")["state"] in ("DONE", "STOPPED")
    record = json.loads((mngr.get_agent_dir("foo") / "agent.json").read_text())
    assert (record["phase"], record["owner"]) == ("ready", None)
    (mngr.home / "trash").unlink()
    (mngr.home / "trash").mkdir()
    mngr("destroy", "foo")


def test_destroy_removes_a_locked_or_broken_worktree(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "worktree", "lock", str(make(mngr)))
    mngr("destroy", "foo")
    (make(mngr) / ".git").unlink()
    mngr("destroy", "foo")
    assert_nothing_is_left(mngr)


def test_destroy_keeps_other_worktrees_of_the_user(mngr: MngrProgram, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    run_git(mngr.repo, "worktree", "add", "-q", "-b", "mine", str(elsewhere))
    elsewhere.rename(tmp_path / "unplugged")  # like a worktree on a disk that is not mounted
    (make(mngr) / ".git").unlink()
    mngr("destroy", "foo")
    assert str(elsewhere) in run_git(mngr.repo, "worktree", "list")


def test_destroy_reports_and_saves_changes_in_a_submodule(mngr: MngrProgram, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    run_git(tmp_path, "clone", "-q", str(mngr.repo), str(inner))
    run_git(mngr.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    run_git(mngr.repo, "commit", "-q", "-m", "a submodule")
    work = make(mngr)
    run_git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    (work / "mod" / "README.md").write_text("changed")
    assert "foo had uncommitted changes" in mngr("destroy", "--force", "foo").err
    mngr("undestroy", "foo")
    assert (mngr.get_work_dir("foo") / "mod" / "README.md").read_text() == "changed"


def test_destroy_does_not_report_an_unchanged_copy_as_uncommitted(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", "--", "true")
    result = mngr("destroy", "--force", "foo")
    assert result.out == "destroyed foo\n" and "uncommitted" not in result.err


def test_destroy_keeps_a_work_dir_that_another_agent_uses_now(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", "--", "true")
    mngr("rename", "foo", "bar")
    shutil.rmtree(mngr.get_work_dir("bar"))
    mngr("create", "foo", "--transfer", "copy", "--", "sleep", "1000")
    assert mngr.get_work_dir("foo") == mngr.get_work_dir("bar")
    mngr("destroy", "--force", "bar")
    assert (mngr.get_work_dir("foo") / "README.md").exists()
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_destroy_never_deletes_a_work_dir_outside_of_the_home(mngr: MngrProgram, tmp_path: Path) -> None:
    make(mngr)
    victim = tmp_path / "victim"
    victim.mkdir()
    path = mngr.get_agent_dir("foo") / "agent.json"
    record = json.loads(path.read_text())
    record["work_dir"] = os.path.join(mngr.home, "work", "..", "..", "victim")
    path.write_text(json.dumps(record) + "\n")
    mngr("destroy", "--force", "foo", code=None)
    assert victim.is_dir()
