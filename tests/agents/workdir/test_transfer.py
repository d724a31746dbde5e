"""Tests of an agent's copy of the project: transfer modes, sources, branches and uncommitted changes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file, list_refs, plant, read_tree, status

RUN = ("--", "sleep", "1000")


def create(mngr: MngrProgram, name: str, *words: str, cwd: Path | None = None) -> Path:
    """Create an agent and return its work dir."""
    mngr("create", name, *words, *RUN, cwd=cwd)
    return mngr.get_work_dir(name)


# ---- mirror


def is_independent(work: Path, source: Path) -> bool:
    """Assert that the repository shares nothing with its source: no alternates, hard links, hooks or remotes."""
    git_dir = work / ".git"
    assert git_dir.is_dir()
    assert not (git_dir / "objects/info/alternates").exists()
    assert not (git_dir / "hooks").exists() or list((git_dir / "hooks").iterdir()) == []
    assert run_git(work, "remote") == ""
    assert all(path.stat().st_nlink == 1 for path in git_dir.rglob("*") if path.is_file())
    run_git(work, "fsck", "--strict")
    shutil.move(source, source.with_name("away"))  # The copy must work without its source.
    run_git(work, "log", "--all")
    run_git(work, "fsck", "--strict")
    shutil.move(source.with_name("away"), source)
    return True


def test_a_mirror_has_all_branches_and_tags_but_no_hooks_or_settings(mngr: MngrProgram) -> None:
    repo = mngr.repo
    run_git(repo, "branch", "side")
    run_git(repo, "tag", "-a", "v1", "-m", "one")
    run_git(repo, "tag", "light")
    run_git(repo, "update-ref", "refs/notes/x", "HEAD")
    run_git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
    run_git(repo, "config", "core.sshCommand", "secret")
    run_git(repo, "remote", "add", "origin", "ssh://example.invalid/x")
    run_git(repo, "config", "user.name", "Local Name")
    hook = repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    work = create(mngr, "foo", "--transfer", "mirror")
    source_refs = {ref: oid for ref, oid in list_refs(repo).items() if ref.startswith(("refs/heads/", "refs/tags/"))}
    assert list_refs(work) == {**source_refs, "refs/heads/mngr/foo": run_git(repo, "rev-parse", "HEAD")}
    assert run_git(work, "symbolic-ref", "HEAD") == "refs/heads/mngr/foo"
    settings = run_git(work, "config", "--local", "--name-only", "--list").splitlines()
    assert {key for key in settings if not key.startswith("core.")} == {"user.name"}
    assert "core.sshcommand" not in settings and run_git(work, "config", "user.name") == "Local Name"
    assert read_tree(work) == read_tree(repo) and status(work) == [""]
    assert not (work / "ran").exists()
    assert is_independent(work, repo)
    assert "mngr/foo" not in run_git(repo, "branch", "--list", "--all")


def test_a_mirror_can_start_at_a_detached_head_that_no_branch_has(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "checkout", "-q", "--detach")
    lonely = commit_file(mngr.repo)
    work = create(mngr, "foo", "--transfer", "mirror")
    assert run_git(work, "rev-parse", "HEAD") == lonely == mngr.get_agent("foo")["base"]
    assert list_refs(work) == {**list_refs(mngr.repo), "refs/heads/mngr/foo": lonely}
    assert is_independent(work, mngr.repo)


def test_a_mirror_of_a_shallow_clone_can_be_pulled_and_pushed(mngr: MngrProgram, tmp_path: Path) -> None:
    for number in range(3):
        commit_file(mngr.repo, f"{number}.txt")
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth", "2", f"file://{mngr.repo}", str(shallow))
    work = create(mngr, "foo", "--transfer", "mirror", cwd=shallow)
    assert run_git(work, "rev-list", "--count", "HEAD") == "2"
    assert status(work) == [""]
    new_commit = commit_file(work, "done.txt")
    mngr("pull", "foo", cwd=shallow)
    assert run_git(shallow, "rev-parse", "mngr/foo") == new_commit
    mngr("push", "foo", cwd=shallow)


def test_a_mirror_can_be_created_from_a_subdirectory_of_a_linked_worktree(mngr: MngrProgram, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run_git(mngr.repo, "worktree", "add", "-q", "-b", "side", str(linked))
    ahead = commit_file(linked)
    work = create(mngr, "foo", "--transfer", "mirror", cwd=linked / "src")
    assert run_git(work, "rev-parse", "HEAD") == ahead
    assert read_tree(work) == read_tree(linked)
    assert is_independent(work, mngr.repo)
    assert mngr.get_agent("foo")["project"] == "repo"


# ---- worktree


def test_a_worktree_created_in_a_linked_worktree_survives_its_removal(mngr: MngrProgram, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    run_git(mngr.repo, "worktree", "add", "-q", "-b", "side", str(linked))
    ahead = commit_file(linked)
    work = create(mngr, "foo", cwd=linked / "src")
    assert run_git(work, "rev-parse", "HEAD") == ahead
    assert mngr.get_agent("foo")["project"] == "repo"
    run_git(mngr.repo, "worktree", "remove", "--force", str(linked))
    mngr("stop", "foo")
    mngr("destroy", "foo")
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0
    assert "mngr/foo" not in run_git(mngr.repo, "branch", "--list")


def test_a_worktree_can_start_at_a_detached_head(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "checkout", "-q", "--detach")
    lonely = commit_file(mngr.repo)
    work = create(mngr, "foo")
    assert run_git(work, "rev-parse", "mngr/foo") == lonely
    assert run_git(work, "rev-parse", "--path-format=absolute", "--git-common-dir") == str(mngr.repo / ".git")


def test_the_users_hooks_do_not_run_when_a_worktree_is_created(mngr: MngrProgram) -> None:
    hook = mngr.repo / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran\n")
    hook.chmod(0o755)
    assert not (create(mngr, "foo") / "ran").exists()


# ---- copy, none


def test_a_copy_has_the_files_without_git_and_ignored_files(mngr: MngrProgram) -> None:
    (mngr.repo / "noise.log").write_text("ignored")
    (mngr.repo / "new é\n.txt").write_text("untracked")
    (mngr.repo / "README.md").write_text("changed")
    (mngr.repo / "src/app.py").unlink()
    outputs_dir = mngr.repo / ".mngr/outputs/old"
    outputs_dir.mkdir(parents=True)
    (outputs_dir / "x").write_text("x")
    work = create(mngr, "foo", "--transfer", "copy", cwd=mngr.repo / "src")
    assert set(read_tree(work)) == {".gitignore", "README.md", "new é\n.txt"}
    assert (work / "README.md").read_text() == "changed"
    agent = mngr.get_agent("foo")
    assert (agent["branch"], agent["base"], agent["project"]) == (None, None, "repo")


def test_a_copy_of_a_plain_directory_excludes_mngrs_home(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "a/b").mkdir(parents=True)
    (plain / "empty").mkdir()
    (plain / "a/b/run").write_text("#!/bin/sh\n")
    (plain / "a/b/run").chmod(0o755)
    (plain / "link").symlink_to("a/b/run")
    before = read_tree(plain)
    for home in (plain / ".mngr", plain / "a/home"):
        mngr("--home", str(home), "create", "foo", *RUN, cwd=plain)
        assert read_tree(home / "work/foo") == before
        (home / "work/foo/mark").write_text("")
        mngr("--home", str(home), "stop", "foo")
        os.unlink(os.readlink(home / "tmux.socket"))
        shutil.rmtree(home)


def test_transfer_none_uses_the_directory_itself_and_never_deletes_it(mngr: MngrProgram) -> None:
    directory = mngr.repo / "src"
    assert create(mngr, "foo", "--transfer", "none", cwd=directory) == directory
    agent = mngr.get_agent("foo")
    assert (agent["branch"], agent["base"]) == ("main", run_git(mngr.repo, "rev-parse", "HEAD"))
    mngr("stop", "foo")
    mngr("destroy", "foo")
    assert (directory / "app.py").exists() and run_git(mngr.repo, "branch", "--list").count("\n") == 0


# ---- from


def test_from_accepts_absolute_and_relative_paths(mngr: MngrProgram, tmp_path: Path) -> None:
    for path in (str(mngr.repo), "../repo", "../repo/src"):
        name = f"n{len(path)}"
        elsewhere = tmp_path / "user"
        assert read_tree(create(mngr, name, "--from", path, cwd=elsewhere)) == read_tree(mngr.repo)


def test_from_an_agent_starts_at_that_agents_commit(mngr: MngrProgram) -> None:
    first = create(mngr, "one")
    ahead = commit_file(first)
    second = create(mngr, "two", "--from", "one")
    assert run_git(second, "rev-parse", "mngr/two") == ahead == mngr.get_agent("two")["base"]
    assert mngr.get_agent("two")["project"] == "repo"
    (first / "dirty.txt").write_text("d")
    assert "uncommitted" in mngr("create", "three", "--from", "one", *RUN, code=1).err
    assert (create(mngr, "three", "--from", "one", "--dirty", "include") / "dirty.txt").read_text() == "d"
    mngr("destroy", "--force", "one")
    mngr("destroy", "--force", "two", "three")
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0


def test_from_a_mirror_agent_runs_no_programs_from_its_settings(mngr: MngrProgram, tmp_path: Path) -> None:
    first = create(mngr, "one", "--transfer", "mirror")
    commit_file(first, ".gitattributes", "* filter=evil\n")
    plant(first, tmp_path / "ran")
    (first / "README.md").write_text("changed")
    second = create(mngr, "two", "--from", "one", "--dirty", "include")
    assert (second / ".git").is_dir() and (second / "README.md").read_text() == "changed"
    create(mngr, "three", "--from", "one", "--transfer", "copy")
    assert not (tmp_path / "ran").exists()
    mngr("create", "four", "--from", "one", "--transfer", "worktree", *RUN, code=2)
    assert is_independent(second, first)


@pytest.mark.parametrize("target", ["", "--sandbox"])
def test_dirty_include_copies_the_uncommitted_files_of_a_sandboxed_agent(mngr: MngrProgram, target: str) -> None:
    first = create(mngr, "one", "--sandbox")
    line = "echo more >> README.md; echo new > new.txt; echo staged > staged.txt; git add staged.txt; rm src/*"
    mngr("exec", "one", "--", "sh", "-ec", line)
    second = create(mngr, "two", "--from", "one", "--dirty", "include", *target.split())
    assert read_tree(second) == read_tree(first)
    assert status(second) == status(first) and "A  staged.txt" in status(first)
    assert [ref for work in (first, second) for ref in list_refs(work) if ref.startswith("refs/mngr")] == []


@pytest.mark.parametrize("place", ["", "src"])
def test_a_directory_of_a_sandboxed_agent_is_as_guarded_as_the_agent(
    mngr: MngrProgram, tmp_path: Path, place: str
) -> None:
    """git runs in the agent's sandbox, so that the settings of the agent's repository run nothing outside."""
    first = create(mngr, "one", "--sandbox")
    mngr("exec", "one", "--", "git", "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    second = create(mngr, "two", "--from", str(first / place))
    assert (second / ".git").is_dir() and is_independent(second, first)
    create(mngr, "three", cwd=first / place)
    assert not (tmp_path / "ran").exists()


def test_from_a_url_creates_a_mirror_and_fetches_updates(mngr: MngrProgram, tmp_path: Path) -> None:
    elsewhere = tmp_path / "user"
    url = f"file://{mngr.repo}"
    (mngr.repo / ".mngr").mkdir()
    (mngr.repo / ".mngr/settings.toml").write_text('[project]\nsetup = "echo made >made.log"\n')
    first = commit_file(mngr.repo)
    run_git(mngr.repo, "branch", "side")
    refusal = mngr("create", "one", "--from", url, *RUN, cwd=elsewhere, code=1).err
    assert "project.setup" in refusal
    mngr(*shlex.split(refusal.partition("if you trust them: mngr ")[2]))
    one = create(mngr, "one", "--from", url, cwd=elsewhere)
    assert run_git(one, "rev-parse", "HEAD") == first and (one / ".git").is_dir()
    assert (one / "made.log").read_text() == "made\n"
    assert mngr.get_agent("one")["project"] == "repo"
    agent_commit = commit_file(one, "work.txt")
    run_git(mngr.repo, "branch", "-D", "side")
    second = commit_file(mngr.repo, "second.txt")
    two = create(mngr, "two", "--from", url, "--branch", "main:mngr/one", cwd=elsewhere)
    assert run_git(two, "rev-parse", "mngr/one") == second
    assert "refs/heads/side" not in list_refs(two)
    assert run_git(one, "rev-parse", "mngr/one") == agent_commit
    for mode in ("worktree", "copy", "none"):
        mngr("create", "x", "--from", url, "--transfer", mode, *RUN, cwd=elsewhere, code=2)
    result = mngr("create", "x", "--from", f"file://{tmp_path}/nowhere", *RUN, cwd=elsewhere, code=1)
    assert "cannot fetch" in result.err and "Hint:" in result.err
    assert sorted(agent["name"] for agent in mngr.list_agents()) == ["one", "two"]


# ---- branch


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_the_branch_option_sets_the_base_and_the_new_branch(mngr: MngrProgram, mode: str) -> None:
    first = run_git(mngr.repo, "rev-parse", "HEAD")
    run_git(mngr.repo, "branch", "old")
    run_git(mngr.repo, "tag", "v1")
    ahead = commit_file(mngr.repo)
    for number, (text, branch, base) in enumerate(
        (
            ("old", "old", first),
            ("old:new", "new", first),
            (":fresh", "fresh", ahead),
            ("v1:", "mngr/n3", first),
            (f"{first[:10]}:by-*/x", "by-n4/x", first),
        )
    ):
        work = create(mngr, f"n{number}", "--branch", text, "--transfer", mode)
        assert (run_git(work, "symbolic-ref", "--short", "HEAD"), run_git(work, "rev-parse", "HEAD")) == (
            branch,
            base,
        )
        agent = mngr.get_agent(f"n{number}")
        assert (agent["branch"], agent["base"]) == (branch, base)


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("nowhere", 1, "there is no branch 'nowhere'"),
        ("nowhere:x", 1, "there is no commit 'nowhere'"),
        (":main", 1, "there is already a branch 'main'"),
        ("main", 1, "'main' is checked out at"),
        (":a..b", 2, "is not a valid branch name"),
        (":main/x", 1, "git cannot create the branch"),
    ],
)
def test_an_invalid_branch_option_fails_with_a_hint_and_leaves_nothing(
    mngr: MngrProgram, text: str, code: int, said: str
) -> None:
    result = mngr("create", "foo", "--branch", text, *RUN, code=code)
    assert said in result.err and "Hint:" in result.err
    assert list(list_refs(mngr.repo)) == ["refs/heads/main"]
    assert run_git(mngr.repo, "worktree", "list").count("\n") == 0 and mngr.list_agents() == []


def test_create_fails_and_keeps_a_branch_of_the_user_with_the_same_name(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "branch", "mngr/foo")
    for mode in ("worktree", "mirror"):
        assert "already a branch 'mngr/foo'" in mngr("create", "foo", "--transfer", mode, *RUN, code=1).err
    assert "refs/heads/mngr/foo" in list_refs(mngr.repo)


# ---- dirty


def make_a_mess(repo: Path) -> None:
    """Commit files and make all kinds of uncommitted changes."""
    for name in (
        "gone.txt",
        "gone-staged.txt",
        "renamed.txt",
        "both.txt",
        "mode.sh",
        "to-link",
        "d/deep/only.txt",
        "é é.txt",
    ):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(f"{name}\n" * 20)
    (repo / "to-file").symlink_to("README.md")
    (repo / "file-to-dir").write_text("f")
    (repo / "dir-to-file").mkdir()
    (repo / "dir-to-file/x").write_text("x")
    (repo / "link-to-dir").symlink_to("/tmp")
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-q", "-m", "second")
    (repo / "gone.txt").unlink()
    run_git(repo, "rm", "-q", "gone-staged.txt")
    run_git(repo, "mv", "renamed.txt", "new name.txt")
    (repo / "both.txt").write_text("staged\n")
    run_git(repo, "add", "both.txt")
    (repo / "both.txt").write_text("unstaged\n")
    (repo / "mode.sh").chmod(0o755)
    (repo / "to-link").unlink()
    (repo / "to-link").symlink_to("nowhere/at all")
    (repo / "to-file").unlink()
    (repo / "to-file").write_text("now a file")
    (repo / "file-to-dir").unlink()
    (repo / "file-to-dir").mkdir()
    (repo / "file-to-dir/inside").write_text("i")
    shutil.rmtree(repo / "dir-to-file")
    (repo / "dir-to-file").write_text("now a file")
    (repo / "link-to-dir").unlink()
    (repo / "link-to-dir").mkdir()
    (repo / "link-to-dir/own").write_text("mine")
    shutil.rmtree(repo / "d")
    (repo / "é é.txt").write_text("ü\n")
    for odd in (
        "-rf",
        "new\nline",
        " lead",
        "trail ",
        "tab\t",
        '"quoted"',
        "*",
        "back\\slash",
        os.fsdecode(b"raw\xff\xfe"),
    ):
        (repo / odd).write_text(f"odd {len(odd)}\n")
    (repo / "un/tracked/deep").mkdir(parents=True)
    (repo / "un/tracked/deep/tool").write_text("#!/bin/sh\n")
    (repo / "un/tracked/deep/tool").chmod(0o755)
    (repo / "un/link").symlink_to("tracked")
    (repo / "staged-new.txt").write_text("s")
    run_git(repo, "add", "staged-new.txt")
    (repo / "empty").write_text("")
    (repo / "noise.log").write_text("ignored")


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_dirty_include_copies_all_uncommitted_changes_exactly(mngr: MngrProgram, mode: str) -> None:
    make_a_mess(mngr.repo)
    before = status(mngr.repo)
    work = create(mngr, "foo", "--dirty", "include", "--transfer", mode)
    expected = read_tree(mngr.repo)
    del expected["noise.log"]
    assert read_tree(work) == expected
    assert status(work) == before == status(mngr.repo)
    assert run_git(work, "diff", "--cached") == run_git(mngr.repo, "diff", "--cached")
    assert run_git(work, "diff") == run_git(mngr.repo, "diff")
    assert [ref for ref in list_refs(work) if ref.startswith("refs/mngr")] == []
    run_git(work, "fsck", "--strict")


def test_dirty_ignore_copies_no_uncommitted_changes(mngr: MngrProgram) -> None:
    make_a_mess(mngr.repo)
    work = create(mngr, "foo", "--dirty", "ignore")
    assert status(work) == [""]
    assert (work / "gone.txt").exists() and not (work / "empty").exists()


@pytest.mark.parametrize("how", ["untracked", "changed", "staged"])
def test_create_from_a_dirty_project_fails_and_names_the_files(mngr: MngrProgram, how: str) -> None:
    (mngr.repo / ("new.txt" if how == "untracked" else "README.md")).write_text("changed")
    if how == "staged":
        run_git(mngr.repo, "add", "-A")
    result = mngr("create", "foo", *RUN, code=1)
    assert ("new.txt" if how == "untracked" else "README.md") in result.err and "--dirty include" in result.err
    assert mngr.list_agents() == []


def test_mngrs_own_files_in_the_project_do_not_make_it_dirty(mngr: MngrProgram) -> None:
    run_dir = mngr.repo / ".mngr/runs/x"
    run_dir.mkdir(parents=True)
    (run_dir / "run.json").write_text("{}")
    create(mngr, "foo")
    (mngr.repo / ".mngr/settings.toml").write_text("")
    assert ".mngr/settings.toml" in mngr("create", "bar", *RUN, code=1).err


def test_dirty_include_fails_during_an_unfinished_merge(mngr: MngrProgram) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "side")
    commit_file(mngr.repo, "README.md", "side\n")
    run_git(mngr.repo, "checkout", "-q", "main")
    commit_file(mngr.repo, "README.md", "main\n")
    subprocess.run(["git", "-C", str(mngr.repo), "merge", "-q", "side"], capture_output=True, check=False)
    assert "unmerged" in mngr("create", "foo", "--dirty", "include", *RUN, code=1).err
    assert mngr.list_agents() == []
    assert "mngr/foo" not in run_git(mngr.repo, "branch", "--list")
