"""`mngr destroy` from outside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from tests.conftest import MngrProgram, run_git, wait_for


def make(mngr: MngrProgram, name: str = "foo", *words: str) -> Path:
    """An agent that has ended; its work dir."""
    mngr("create", name, *words, "--", "true")
    wait_for(lambda: mngr.get_agent(name)["state"] == "DONE")
    return mngr.get_work_dir(name)


def nothing_is_left(mngr: MngrProgram) -> None:
    assert mngr.list_agents() == []
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    for place in ("agents", "names", "work"):
        assert list((mngr.home / place).iterdir()) == []
    assert "foo" not in mngr.run_tmux("list-sessions")


def test_a_clean_agent_leaves_nothing_but_its_grave(mngr: MngrProgram) -> None:
    make(mngr)
    ran = mngr("destroy", "foo")
    assert ran.out == "destroyed foo\n" and ran.err == ""
    nothing_is_left(mngr)
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""
    grave = next((mngr.home / "graveyard").iterdir())
    assert sorted(p.name for p in grave.iterdir()) == [
        "agent",
        "meta.json",
        "owner",
    ]  # what git has needs no copy


def test_a_running_agent_needs_force(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    pid = mngr.get_agent("foo")["pid"]
    ran = mngr("destroy", "foo", code=1)
    assert "Error: foo is RUNNING" in ran.err and "--force" in ran.err
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    mngr("rm", "--force", "foo")
    assert not os.path.exists(f"/proc/{pid}")
    nothing_is_left(mngr)


def test_what_is_dirty_or_unpulled_is_named_and_the_branch_stays(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    tip = run_git(work, "rev-parse", "HEAD")
    (work / "more.txt").write_text("m")
    ran = mngr("destroy", "foo", "--format", "json")
    row = ran.parse_json()["results"][0]
    assert (row["ok"], row["dirty"], row["unpulled"], row["branch_kept"]) == (True, True, 1, "mngr/foo")
    assert Path(row["grave"]).is_dir() and row["ignored_bytes"] == 0
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == tip
    nothing_is_left(mngr)


def test_people_are_told_the_same(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    (work / "more.txt").write_text("m")
    (work / "x.log").write_text("l" * 9000)
    err = mngr("destroy", "foo").err
    assert "foo had uncommitted work, saved with the rest" in err
    assert "the branch mngr/foo stays: it holds 1 commit that no other branch has" in err
    assert "12 KB of ignored files, which are not kept" in err


def test_a_merged_branch_goes(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    run_git(work, "add", "-A")
    run_git(work, "commit", "-q", "-m", "mine")
    run_git(mngr.repo, "merge", "-q", "mngr/foo")
    assert mngr("destroy", "foo").err == ""
    assert run_git(mngr.repo, "branch", "--list", "mngr/*") == ""


def test_a_branch_that_was_there_before_is_never_deleted(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "mine")
    make(mngr, "foo", "--branch", "mine")
    mngr("destroy", "foo")
    assert run_git(mngr.repo, "branch", "--list", "mine") == "mine"
    nothing_is_left(mngr)


def test_several_at_once_each_have_a_result(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "3", "--", "sleep", "1000")
    ran = mngr("destroy", "--force", "w-1", "nobody", "w-3", code=4)
    assert "destroyed w-1\n" in ran.out and "destroyed w-3\n" in ran.out
    assert "there is no agent 'nobody'" in ran.err
    assert [agent["name"] for agent in mngr.list_agents()] == ["w-2"]
    ids = mngr("list", "--ids").out
    assert mngr("destroy", "--force", "-", stdin=ids).out == "destroyed w-2\n"


def test_one_agent_named_twice_is_destroyed_once(mngr: MngrProgram) -> None:
    make(mngr)
    agent_id = mngr.get_agent("foo")["id"]
    assert mngr("destroy", "foo", agent_id).out == "destroyed foo\n"


def test_a_damaged_record_needs_force_and_harms_nothing_else(mngr: MngrProgram) -> None:
    work = make(mngr)
    make(mngr, "bar")
    agent_id = mngr.get_agent("foo")["id"]
    record = mngr.home / "agents" / agent_id / "agent.json"
    record.write_text('{"v": 1, "id":')
    ran = mngr("destroy", "foo", code=1)
    assert "UNKNOWN" in ran.err and "--force" in ran.err
    ran = mngr("destroy", "--force", agent_id)
    assert str(work) in ran.err and work.is_dir()  # without a record nobody knows what is the agent's
    assert [agent["name"] for agent in mngr.list_agents()] == ["bar"]
    grave = mngr.home / "graveyard" / agent_id
    assert (grave / "agent" / "agent.json").read_text() == '{"v": 1, "id":'
    assert [p.name for p in (mngr.home / "names").iterdir()] == ["bar"]


def test_nothing_is_taken_away_when_it_cannot_be_saved(mngr: MngrProgram) -> None:
    work = make(mngr)
    (work / "new.txt").write_text("n")
    (mngr.home / "graveyard").rmdir()
    (mngr.home / "graveyard").write_text("in the way")
    ran = mngr("destroy", "foo", code=1)
    assert "cannot save foo" in ran.err
    assert (work / "new.txt").read_text() == "n"
    assert mngr.get_agent("foo")["state"] in ("DONE", "STOPPED")
    record = json.loads((mngr.get_agent_dir("foo") / "agent.json").read_text())
    assert (record["phase"], record["owner"]) == ("ready", None)
    (mngr.home / "graveyard").unlink()
    (mngr.home / "graveyard").mkdir()
    mngr("destroy", "foo")


def test_a_worktree_that_the_user_locked_or_broke_goes_too(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "worktree", "lock", str(make(mngr)))
    mngr("destroy", "foo")
    (make(mngr) / ".git").unlink()
    mngr("destroy", "foo")
    nothing_is_left(mngr)


def test_other_worktrees_of_the_user_are_left_alone(mngr: MngrProgram, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    run_git(mngr.repo, "worktree", "add", "-q", "-b", "mine", str(elsewhere))
    elsewhere.rename(tmp_path / "unplugged")  # as on a disk that is not mounted
    (make(mngr) / ".git").unlink()
    mngr("destroy", "foo")
    assert str(elsewhere) in run_git(mngr.repo, "worktree", "list")


def test_work_in_a_submodule_is_named(mngr: MngrProgram, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    run_git(tmp_path, "clone", "-q", str(mngr.repo), str(inner))
    run_git(mngr.repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "mod")
    run_git(mngr.repo, "commit", "-q", "-m", "a submodule")
    work = make(mngr)
    run_git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    (work / "mod" / "README.md").write_text("changed")
    assert "foo had uncommitted work" in mngr("destroy", "--force", "foo").err
    mngr("undestroy", "foo")
    assert (mngr.get_work_dir("foo") / "mod" / "README.md").read_text() == "changed"


def test_an_untouched_copy_is_not_called_uncommitted(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", "--", "true")
    ran = mngr("destroy", "--force", "foo")
    assert ran.out == "destroyed foo\n" and "uncommitted" not in ran.err


def test_a_work_dir_that_is_another_agents_by_now_stays(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", "--", "true")
    mngr("rename", "foo", "bar")
    shutil.rmtree(mngr.get_work_dir("bar"))
    mngr("create", "foo", "--transfer", "copy", "--", "sleep", "1000")
    assert mngr.get_work_dir("foo") == mngr.get_work_dir("bar")
    mngr("destroy", "--force", "bar")
    assert (mngr.get_work_dir("foo") / "README.md").exists()
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_a_record_that_names_a_place_outside_is_not_obeyed(mngr: MngrProgram, tmp_path: Path) -> None:
    make(mngr)
    victim = tmp_path / "victim"
    victim.mkdir()
    path = mngr.get_agent_dir("foo") / "agent.json"
    record = json.loads(path.read_text())
    record["work_dir"] = os.path.join(mngr.home, "work", "..", "..", "victim")
    path.write_text(json.dumps(record) + "\n")
    mngr("destroy", "--force", "foo", code=None)
    assert victim.is_dir()
