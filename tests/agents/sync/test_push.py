"""Tests of `mngr push`, which merges the current branch into an agent's branch and copies files to its work dir."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.hosts.sshd import Farm
from tests.support.repos import commit_file, list_refs, status

RUN = ("--", "sleep", "1000")
MODES = pytest.mark.parametrize("mode", ["worktree", "mirror"])


def create_agent(mngr: MngrProgram, mode: str) -> Path:
    """Create an agent with this transfer mode and return its work dir."""
    mngr("create", "foo", "--transfer", mode, *RUN)
    return mngr.get_work_dir("foo")


@MODES
def test_push_fast_forwards_or_creates_a_merge_commit(mngr: MngrProgram, mode: str) -> None:
    work = create_agent(mngr, mode)
    assert mngr.run_json("push", "foo")["results"][0]["how"] == "up_to_date"
    mine = commit_file(mngr.repo, "mine.txt")
    (row,) = mngr.run_json("push", "foo")["results"]
    assert (row["how"], row["commit"], row["branch"]) == ("fast_forward", mine, "mngr/foo")
    assert run_git(work, "rev-parse", "mngr/foo") == mine and (work / "mine.txt").exists()
    theirs = commit_file(work, "theirs.txt")
    again = commit_file(mngr.repo, "again.txt")
    assert mngr.run_json("push", "foo")["results"][0]["how"] == "merge"
    assert run_git(work, "log", "-1", "--format=%P").split() == [theirs, again]
    assert status(work) == [""] and run_git(work, "symbolic-ref", "--short", "HEAD") == "mngr/foo"
    assert [ref for ref in list_refs(work) if not ref.startswith("refs/heads/")] == []


@MODES
def test_push_undoes_a_merge_with_conflicts(mngr: MngrProgram, mode: str) -> None:
    work = create_agent(mngr, mode)
    theirs = commit_file(work, "README.md", "theirs\n")
    commit_file(mngr.repo, "README.md", "mine\n")
    result = mngr("push", "foo", code=1)
    assert (
        "your commits conflict with those of foo in README.md; mngr undid the merge" in result.err
        and "mngr message foo" in result.err
    )
    assert run_git(work, "rev-parse", "HEAD") == theirs and status(work) == [""]
    assert not Path(run_git(work, "rev-parse", "--path-format=absolute", "--git-path", "MERGE_HEAD")).exists()
    mngr("stop", "foo")  # A stopped agent cannot get a message.
    stderr = mngr("push", "foo", code=1).err
    assert "mngr message" not in stderr and "mngr pull foo && git merge mngr/foo" in stderr
    assert [ref for ref in list_refs(work) if not ref.startswith("refs/heads/")] == []


@MODES
def test_push_to_a_dirty_work_dir_fails_or_stashes_the_changes(mngr: MngrProgram, mode: str) -> None:
    work = create_agent(mngr, mode)
    commit_file(mngr.repo, "mine.txt")
    (work / "README.md").write_text("unstaged")
    (work / "new.txt").write_text("new")
    (work / "src/app.py").write_text("staged")
    run_git(work, "add", "src/app.py")
    before = status(work)
    assert "foo has uncommitted changes" in mngr("push", "foo", code=1).err
    assert status(work) == before and not (work / "mine.txt").exists()
    mngr("push", "foo", "--stash")
    assert (work / "mine.txt").exists() and status(work) == before
    assert (work / "README.md").read_text() == "unstaged" and (work / "new.txt").read_text() == "new"
    assert run_git(work, "stash", "list") == ""


def test_push_with_stash_keeps_the_users_stash(mngr: MngrProgram) -> None:
    """Worktrees share one list of stashes with the user's repository."""
    work = create_agent(mngr, "worktree")
    (mngr.repo / "README.md").write_text("the user's")
    run_git(mngr.repo, "stash", "push", "-q")
    commit_file(mngr.repo, "mine.txt")
    (work / "README.md").write_text("the agent's")
    mngr("push", "foo", "--stash")
    assert (work / "README.md").read_text() == "the agent's"
    assert run_git(mngr.repo, "stash", "list").count("\n") == 0
    run_git(mngr.repo, "stash", "pop", "-q")
    assert (mngr.repo / "README.md").read_text() == "the user's"


@pytest.mark.parametrize("staged", [False, True])
def test_push_with_stash_is_undone_when_the_changes_conflict(mngr: MngrProgram, staged: bool) -> None:
    work = create_agent(mngr, "worktree")
    before = run_git(work, "rev-parse", "HEAD")
    (mngr.repo / "new.txt").write_text("the user's")
    commit_file(mngr.repo, "README.md", "mine\n")
    (work / "README.md").write_text("the agent's\n")
    if staged:
        run_git(work, "add", "README.md")
    (work / "other.txt").write_text("other")
    dirty = status(work)
    assert (
        "conflict with uncommitted changes of foo; mngr undid the merge" in mngr("push", "foo", "--stash", code=1).err
    )
    assert run_git(work, "rev-parse", "HEAD") == before and status(work) == dirty
    assert (work / "README.md").read_text() == "the agent's\n" and (work / "other.txt").read_text() == "other"
    assert run_git(work, "stash", "list") == ""


def test_push_to_an_agent_on_another_branch_fails(mngr: MngrProgram) -> None:
    work = create_agent(mngr, "worktree")
    run_git(work, "checkout", "-q", "-b", "elsewhere")
    commit_file(mngr.repo, "mine.txt")
    assert "has not checked out its branch 'mngr/foo'" in mngr("push", "foo", code=1).err
    assert not (work / "mine.txt").exists()


def test_push_fails_for_agents_without_a_repository_and_from_an_unrelated_one(
    mngr: MngrProgram, tmp_path: Path
) -> None:
    mngr("create", "copied", "--transfer", "copy", *RUN)
    mngr("create", "itself", "--transfer", "none", *RUN)
    for name in ("copied", "itself"):
        assert "does not have its own repository" in mngr("push", name, code=1).err
    create_agent(mngr, "worktree")
    other = tmp_path / "other"
    run_git(tmp_path, "init", "-q", str(other))
    assert "not in a git repository with commits" in mngr("push", "foo", cwd=other, code=1).err
    commit_file(other, "x.txt")
    assert "works in another repository" in mngr("push", "foo", cwd=other, code=1).err


def test_push_copies_files_and_directories_like_cp(mngr: MngrProgram, tmp_path: Path) -> None:
    work = create_agent(mngr, "worktree")
    local_dir = tmp_path / "here"
    (local_dir / "data/é\n-x").mkdir(parents=True)
    (local_dir / "data/é\n-x/f").write_text("odd")
    (local_dir / "-dash").write_text("dash")
    (local_dir / "tool").write_text("#!/bin/sh\n")
    (local_dir / "tool").chmod(0o755)
    mngr("push", "./-dash", "foo:", cwd=local_dir)
    assert (work / "-dash").read_text() == "dash"
    mngr("push", "tool", "foo:bin/", cwd=local_dir)
    assert (work / "bin/tool").stat().st_mode & 0o111
    mngr("push", "tool", "foo:a/b/renamed", cwd=local_dir)
    assert (work / "a/b/renamed").exists()
    mngr("push", "data", "foo:src", cwd=local_dir)
    assert (work / "src/data/é\n-x/f").read_text() == "odd"
    (work / "src/data/own").write_text("own")
    mngr("push", "data", "foo:src/", cwd=local_dir)
    assert (work / "src/data/own").exists() and not (work / "src/data/data").exists()
    assert not list(work.rglob(".mngr-*"))


@pytest.mark.parametrize(
    ("source", "target"), [("nowhere", "foo:x"), ("README.md", "foo:../x"), ("README.md", "foo:/tmp/x")]
)
def test_push_of_an_invalid_path_fails_with_a_hint(mngr: MngrProgram, source: str, target: str) -> None:
    create_agent(mngr, "worktree")
    result = mngr("push", source, target, code=1)
    assert result.err.startswith("Error:") and "Hint:" in result.err
    mngr("push", "README.md", "foo", code=2)


def test_push_does_not_follow_an_agents_link_out_of_the_work_dir(mngr: MngrProgram, tmp_path: Path) -> None:
    work = create_agent(mngr, "worktree")
    outside = tmp_path / "outside"
    outside.mkdir()
    (work / "data").symlink_to(outside)
    (work / "file").symlink_to(outside / "file")
    for target in ("data", "data/", "data/deep/er/", "data/x"):
        assert "leads out of the work dir" in mngr("push", "README.md", f"foo:{target}", code=1).err
    assert list(outside.iterdir()) == []
    mngr("push", "README.md", "foo:file")
    assert list(outside.iterdir()) == [] and (work / "file").read_text() == "hello\n"


def test_push_of_a_directory_does_not_write_through_an_agents_link(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (mngr.get_work_dir("foo") / "conf").mkdir()
    (mngr.get_work_dir("foo") / "conf" / "a").symlink_to(precious)
    (mngr.repo / "conf").mkdir()
    (mngr.repo / "conf" / "a").write_text("theirs")
    mngr("push", "conf", "foo:")
    assert precious.read_text() == "mine"
    assert (mngr.get_work_dir("foo") / "conf" / "a").read_text() == "theirs"


def test_push_sends_commits_to_a_worktree_on_a_host(mngr: MngrProgram, farm: Farm) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    remote_repo = farm.home("h1") / "project"
    run_git(mngr.repo, "clone", "-q", str(mngr.repo), str(remote_repo))
    mngr("create", "foo@h1", "--from", f"@h1:{remote_repo}", "--transfer", "worktree", *RUN)
    mine = commit_file(mngr.repo, "mine.txt")
    assert mngr.run_json("push", "foo")["results"][0]["how"] == "fast_forward"
    assert run_git(remote_repo, "rev-parse", "mngr/foo") == mine
    theirs = commit_file(farm.home("h1") / ".mngr/work/foo", "theirs.txt")
    assert mngr.run_json("list", "--git")["agents"][0]["unpulled"] == 2
    assert mngr.run_json("pull", "foo")["results"][0]["commit"] == theirs
    assert [ref for ref in list_refs(remote_repo) if ref.startswith("refs/mngr")] == []


def test_push_of_a_file_that_cannot_be_read_completely_leaves_nothing(mngr: MngrProgram) -> None:
    work = create_agent(mngr, "worktree")
    before = status(work)
    result = mngr("push", "/sys/devices/system/cpu/online", "foo:x", code=1)  # This file is shorter than its size says.
    assert "cannot read" in result.err and "nothing was copied" in result.err
    assert status(work) == before and not list(work.glob(".mngr-*"))
