"""Tests of `mngr pull`, which checks commits and outputs and overwrites nothing of the user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mngr.testkit.contract.client import run_concurrently
from tests.conftest import MngrProgram, run_git
from tests.support.repos import commit_file, list_refs

RUN = ("--", "sleep", "1000")


@pytest.fixture
def mirror(mngr: MngrProgram) -> Path:
    """The work dir of an agent with its own repository."""
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    return mngr.get_work_dir("foo")


def outputs(mngr: MngrProgram, name: str = "foo") -> Path:
    """Return the directory in which the agent leaves its outputs."""
    return mngr.get_agent_dir(name) / "outputs"


def pulled_outputs(mngr: MngrProgram) -> Path:
    """Return the directory to which `pull` copies the outputs of foo."""
    return mngr.repo / ".mngr/outputs/foo"


# ---- commits


def test_pull_from_a_worktree_reports_the_commits(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    new_commit = commit_file(mngr.get_work_dir("foo"))
    (row,) = mngr.run_json("pull", "foo")["results"]
    assert (row["ok"], row["branch"], row["commit"], row["commits"], row["outputs"]) == (
        True,
        "mngr/foo",
        new_commit,
        1,
        0,
    )
    assert mngr("pull", "foo").out == f"mngr/foo is at {new_commit[:12]} (1 new commit)\n"


def test_pull_from_a_mirror_updates_the_branch_with_the_same_name(mngr: MngrProgram, mirror: Path) -> None:
    first = commit_file(mirror, "one.txt")
    assert mngr.run_json("pull", "foo")["results"][0]["commits"] == 1
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == first
    second = commit_file(mirror, "two.txt")
    (row,) = mngr.run_json("pull", "foo")["results"]
    assert (row["commit"], row["commits"]) == (second, 1)
    assert mngr.run_json("pull", "foo")["results"][0]["commits"] == 0
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == second
    assert list(list_refs(mngr.repo)) == ["refs/heads/main", "refs/heads/mngr/foo"]
    assert not (mngr.repo / "one.txt").exists() and not (mngr.repo / ".git/FETCH_HEAD").exists()
    run_git(mngr.repo, "fsck", "--strict")


def test_pull_does_not_overwrite_a_branch_that_has_diverged(mngr: MngrProgram, mirror: Path) -> None:
    commit_file(mirror, "one.txt")
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    mine = commit_file(mngr.repo, "mine.txt")
    result = mngr("pull", "foo", code=1)
    assert "has commits that the agent's branch does not have" in result.err and "Hint:" in result.err
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == mine
    assert list(list_refs(mngr.repo)) == ["refs/heads/main", "refs/heads/mngr/foo"]


def test_pull_refuses_history_that_the_agent_has_rewritten(mngr: MngrProgram, mirror: Path) -> None:
    old = commit_file(mirror, "one.txt")
    mngr("pull", "foo")
    run_git(mirror, "commit", "-q", "--amend", "-m", "other")
    mngr("pull", "foo", code=1)
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == old


def test_pull_fast_forwards_a_clean_checked_out_branch(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    new_commit = commit_file(mirror, "one.txt")
    mngr("pull", "foo")
    assert run_git(mngr.repo, "rev-parse", "HEAD") == new_commit
    assert (mngr.repo / "one.txt").exists() and run_git(mngr.repo, "status", "--porcelain") == ""


def test_pull_does_not_change_a_dirty_checked_out_branch(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    before = run_git(mngr.repo, "rev-parse", "HEAD")
    (mngr.repo / "README.md").write_text("mine")
    commit_file(mirror, "one.txt")
    assert "uncommitted changes" in mngr("pull", "foo", code=1).err
    assert run_git(mngr.repo, "rev-parse", "HEAD") == before and (mngr.repo / "README.md").read_text() == "mine"


def test_pull_with_merge_merges_into_the_current_branch(mngr: MngrProgram, mirror: Path) -> None:
    new_commit = commit_file(mirror, "one.txt")
    mine = commit_file(mngr.repo, "mine.txt")
    assert mngr.run_json("pull", "foo", "--merge")["results"][0]["merged"] is True
    assert run_git(mngr.repo, "log", "-1", "--format=%P").split() == [mine, new_commit]
    assert (mngr.repo / "one.txt").exists() and (mngr.repo / "mine.txt").exists()
    assert mngr.run_json("pull", "foo", "--merge")["results"][0]["merged"] is False


def test_pull_undoes_a_merge_with_conflicts(mngr: MngrProgram, mirror: Path) -> None:
    new_commit = commit_file(mirror, "README.md", "theirs\n")
    mine = commit_file(mngr.repo, "README.md", "mine\n")
    result = mngr("pull", "foo", "--merge", code=1)
    assert (
        "conflicts in README.md; mngr undid the merge" in result.err
        and "Hint: merge by hand and resolve the conflicts: git merge mngr/foo" in result.err
    )
    assert run_git(mngr.repo, "rev-parse", "HEAD") == mine and run_git(mngr.repo, "status", "--porcelain") == ""
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == new_commit


def test_pull_with_merge_needs_a_branch_on_both_sides(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "--detach")
    commit_file(mirror, "one.txt")
    assert "detached" in mngr("pull", "foo", "--merge", code=1).err
    mngr("create", "bar", "--transfer", "copy", *RUN)
    assert "no branch" in mngr("pull", "bar", "--merge", code=1).err


def test_pull_refuses_malformed_objects(mngr: MngrProgram, mirror: Path) -> None:
    blob = run_git(mirror, "hash-object", "-w", "README.md")
    raw = b"100644 .git\0" + bytes.fromhex(blob)
    words = ["git", "-C", str(mirror), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    tree = subprocess.run(words, input=raw, capture_output=True, check=True).stdout.decode().strip()
    evil = run_git(mirror, "commit-tree", tree, "-p", "HEAD", "-m", "evil")
    run_git(mirror, "update-ref", "refs/heads/mngr/foo", evil)
    result = mngr("pull", "foo", code=1)
    assert "mngr refused the commits of foo" in result.err and "your repository is unchanged" in result.err
    assert list(list_refs(mngr.repo)) == ["refs/heads/main"]


def test_pull_names_a_branch_that_the_agent_has_deleted(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mirror, "checkout", "-q", "--detach")
    run_git(mirror, "branch", "-q", "-D", "mngr/foo")
    assert "no longer has the branch 'mngr/foo'" in mngr("pull", "foo", code=1).err


def test_pull_stores_many_objects_as_a_pack_and_few_as_loose_objects(mngr: MngrProgram, mirror: Path) -> None:
    for number in range(120):
        (mirror / f"f{number}").write_text(str(number))
    commit_file(mirror)
    mngr("pull", "foo")
    assert len(list((mngr.repo / ".git/objects/pack").glob("*.pack"))) == 1
    commit_file(mirror, "one.txt")
    mngr("pull", "foo")
    assert len(list((mngr.repo / ".git/objects/pack").glob("*.pack"))) == 1
    run_git(mngr.repo, "fsck", "--strict")
    assert run_git(mngr.repo, "count-objects", "-v").splitlines()[-2:] == ["garbage: 0", "size-garbage: 0"]


def test_pull_into_an_unrelated_repository_fetches_the_whole_history(
    mngr: MngrProgram, mirror: Path, tmp_path: Path
) -> None:
    new_commit = commit_file(mirror, "one.txt")
    other = tmp_path / "other"
    run_git(tmp_path, "init", "-q", "-b", "main", str(other))
    mngr("pull", "foo", cwd=other)
    assert run_git(other, "rev-parse", "mngr/foo") == new_commit
    run_git(other, "fsck", "--strict")
    commit_file(other, "unrelated.txt")
    commit_file(mirror, "two.txt")
    assert mngr.run_json("pull", "foo", cwd=other)["results"][0]["commits"] == 1


def test_pull_keeps_the_depth_of_a_shallow_repository(mngr: MngrProgram, tmp_path: Path) -> None:
    for number in range(3):
        commit_file(mngr.repo, f"{number}.txt")
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth", "2", f"file://{mngr.repo}", str(shallow))
    mngr("create", "foo", "--transfer", "mirror", *RUN, cwd=shallow)
    new_commit = commit_file(mngr.get_work_dir("foo"), "one.txt")
    before = (shallow / ".git/shallow").read_text()
    mngr("pull", "foo", cwd=shallow)
    assert run_git(shallow, "rev-parse", "mngr/foo") == new_commit and (shallow / ".git/shallow").read_text() == before
    run_git(shallow, "fsck", "--strict")
    mngr("pull", "foo")
    assert run_git(mngr.repo, "rev-list", "--count", "mngr/foo") == "5"
    assert not (mngr.repo / ".git/shallow").exists()


def test_pull_works_with_sha256_repositories(mngr: MngrProgram, tmp_path: Path) -> None:
    repo = tmp_path / "long"
    run_git(tmp_path, "init", "-q", "--object-format=sha256", str(repo))
    commit_file(repo)
    mngr("create", "foo", "--transfer", "mirror", *RUN, cwd=repo)
    new_commit = commit_file(mngr.get_work_dir("foo"), "one.txt")
    mngr("pull", "foo", cwd=repo)
    assert run_git(repo, "rev-parse", "mngr/foo") == new_commit and len(new_commit) == 64


def test_parallel_pulls_do_not_disturb_each_other(mngr: MngrProgram, mirror: Path) -> None:
    mngr("create", "bar", "--transfer", "mirror", *RUN)
    commits = [commit_file(mirror, "one.txt"), commit_file(mngr.get_work_dir("bar"), "two.txt")]
    results = run_concurrently(*((mngr, ("pull", name)) for name in ("foo", "bar", "foo", "bar")))
    assert [result.returncode for result in results] == [0, 0, 0, 0]
    assert [run_git(mngr.repo, "rev-parse", f"mngr/{name}") for name in ("foo", "bar")] == commits
    run_git(mngr.repo, "fsck", "--strict")


# ---- outputs


def test_pull_copies_outputs_to_a_directory_that_git_ignores(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    outputs_dir = outputs(mngr)
    (outputs_dir / "sub/empty").mkdir(parents=True)
    for name in (
        "plain.txt",
        "é ü",
        "new\nline",
        "-rf",
        "sub/deep.txt",
        os.fsdecode(b"raw\xff"),
        "..dots",
        "a:b",
    ):
        (outputs_dir / name).write_text(name.encode("utf-8", "replace").decode())
    (outputs_dir / "tool").write_text("#!/bin/sh\n")
    (outputs_dir / "tool").chmod(0o4755)
    (outputs_dir / "sub/link").symlink_to("../plain.txt")
    (outputs_dir / "loop").symlink_to("loop")
    os.link(outputs_dir / "plain.txt", outputs_dir / "twice.txt")
    (row,) = mngr.run_json("pull", "foo")["results"]
    assert (row["outputs"], row["outputs_dir"]) == (12, str(pulled_outputs(mngr)))
    received = {path.relative_to(pulled_outputs(mngr)) for path in pulled_outputs(mngr).rglob("*")}
    assert received == {path.relative_to(outputs_dir) for path in outputs_dir.rglob("*")}
    assert (pulled_outputs(mngr) / "twice.txt").read_text() == "plain.txt"
    assert (pulled_outputs(mngr) / "tool").stat().st_mode & 0o7777 == 0o755
    assert os.readlink(pulled_outputs(mngr) / "sub/link") == "../plain.txt"
    assert run_git(mngr.repo, "status", "--porcelain") == ""
    mngr("create", "bar", *RUN)  # The outputs do not make the project dirty.


def test_a_second_pull_updates_the_outputs(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    outputs_dir = outputs(mngr)
    (outputs_dir / "a").write_text("1")
    (outputs_dir / "b").mkdir()
    (outputs_dir / "b/x").write_text("x")
    (outputs_dir / "c").symlink_to("b")
    mngr("pull", "foo")
    (outputs_dir / "a").unlink()
    (outputs_dir / "a").mkdir()
    (outputs_dir / "a/in").write_text("2")
    (outputs_dir / "c").unlink()
    (outputs_dir / "c").write_text("3")
    mngr("pull", "foo")
    assert (pulled_outputs(mngr) / "a/in").read_text() == "2"
    assert (pulled_outputs(mngr) / "c").read_text() == "3" and not (pulled_outputs(mngr) / "c").is_symlink()
    assert (pulled_outputs(mngr) / "b/x").read_text() == "x"


def test_pull_copies_outputs_outside_of_a_repository(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    mngr("create", "foo", "--", "sh", "-c", "echo done >$MNGR_OUTPUT_DIR/x; sleep 1000", cwd=plain)
    assert mngr.run_json("pull", "foo", cwd=plain)["results"][0]["commit"] is None
    assert (plain / ".mngr/outputs/foo/x").read_text() == "done\n"


def test_pull_from_an_agent_without_work_creates_nothing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", *RUN)
    assert mngr("pull", "foo").out == "foo has no commits and no outputs\n"
    assert not (mngr.repo / ".mngr").exists()


def plant_hostile_output(outputs_dir: Path, outside: Path, how: str) -> None:
    """Create an output of the hostile kind `how`."""
    match how:
        case "link to a file outside":
            (outputs_dir / "x").symlink_to(outside / "secret")
        case "link up and out":
            (outputs_dir / "x").symlink_to("../../../../../outside")
        case "link out through a link":
            (outputs_dir / "d").symlink_to(".")
            (outputs_dir / "x").symlink_to("d/d/..")
        case "link to the directory above":
            (outputs_dir / "x").symlink_to("..")
        case "pipe":
            os.mkfifo(outputs_dir / "x")
        case "too deep":
            deep = outputs_dir
            for _ in range(150):
                deep = deep / "d"
            deep.mkdir(parents=True)


@pytest.mark.parametrize(
    "how",
    [
        "link to a file outside",
        "link up and out",
        "link out through a link",
        "link to the directory above",
        "pipe",
        "too deep",
    ],
)
def test_pull_refuses_hostile_outputs(mngr: MngrProgram, tmp_path: Path, how: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    mngr("create", "foo", *RUN)
    plant_hostile_output(outputs(mngr), outside, how)
    result = mngr("pull", "foo", code=1)
    assert "Error: mngr refused the copy:" in result.err and "Hint:" in result.err
    for path in pulled_outputs(mngr).rglob("*"):
        assert os.path.realpath(path).startswith(str(pulled_outputs(mngr)))


def test_pull_does_not_write_outputs_through_an_existing_link(mngr: MngrProgram, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    mngr("create", "foo", *RUN)
    pulled_outputs(mngr).mkdir(parents=True)
    (pulled_outputs(mngr) / "d").symlink_to(outside)
    (pulled_outputs(mngr) / "f").symlink_to(outside / "f")
    (outputs(mngr) / "d").mkdir()
    (outputs(mngr) / "d/x").write_text("x")
    (outputs(mngr) / "f").write_text("f")
    mngr("pull", "foo")
    assert list(outside.iterdir()) == []
    assert (pulled_outputs(mngr) / "d/x").read_text() == "x"


@pytest.mark.parametrize("part", [".mngr", ".mngr/outputs", ".mngr/outputs/foo"])
def test_pull_refuses_an_outputs_directory_behind_a_link(mngr: MngrProgram, tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    mngr("create", "foo", *RUN)
    (outputs(mngr) / "x").write_text("x")
    (mngr.repo / part).parent.mkdir(parents=True, exist_ok=True)
    (mngr.repo / part).symlink_to(outside)
    assert "is a symbolic link" in mngr("pull", "foo", code=1).err
    assert list(outside.iterdir()) == []


def test_pull_copies_nothing_when_the_agents_outputs_directory_is_a_link(mngr: MngrProgram, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    mngr("create", "foo", *RUN)
    outputs(mngr).rmdir()
    outputs(mngr).symlink_to(tmp_path)
    mngr("pull", "foo", code=1)
    assert not pulled_outputs(mngr).exists()


# ---- paths


def test_pull_copies_files_and_directories_like_cp(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    work = mngr.get_work_dir("foo")
    (work / "out/deep").mkdir(parents=True)
    (work / "out/deep/é\n-x").write_text("odd")
    (work / "-dash").write_text("dash")
    local_dir = tmp_path / "here"
    local_dir.mkdir()
    mngr("pull", "foo:README.md", cwd=local_dir)
    assert (local_dir / "README.md").read_text() == "hello\n"
    mngr("pull", "foo:src/app.py", "renamed.py", cwd=local_dir)
    assert (local_dir / "renamed.py").read_text() == "print('hi')\n"
    mngr("pull", "foo:out", cwd=local_dir)
    assert (local_dir / "out/deep/é\n-x").read_text() == "odd"
    (local_dir / "out/own").write_text("own")
    mngr("pull", "foo:out/", ".", cwd=local_dir)
    assert (local_dir / "out/own").read_text() == "own"
    mngr("pull", "foo:-dash", "in/", cwd=local_dir, code=1)
    (local_dir / "in").mkdir()
    assert mngr.run_json("pull", "foo:-dash", "in", cwd=local_dir)["results"][0]["path"] == str(local_dir / "in/-dash")
    assert sorted(path.name for path in local_dir.iterdir()) == ["README.md", "in", "out", "renamed.py"]


def test_pull_of_a_whole_work_dir_excludes_git(mngr: MngrProgram, mirror: Path, tmp_path: Path) -> None:
    mngr("pull", "foo:.", "all", cwd=tmp_path)
    assert (tmp_path / "all/src/app.py").exists()
    assert not (tmp_path / "all/.git").exists()


@pytest.mark.parametrize(
    ("path", "said"), [("nowhere", "has no file 'nowhere'"), ("../x", "outside"), ("/etc/passwd", "outside")]
)
def test_pull_of_an_invalid_path_fails_with_a_hint(mngr: MngrProgram, path: str, said: str) -> None:
    mngr("create", "foo", *RUN)
    before = sorted(mngr.repo.iterdir())
    result = mngr("pull", f"foo:{path}", code=1)
    assert said in result.err and "Hint:" in result.err
    assert sorted(mngr.repo.iterdir()) == before


def test_pull_does_not_replace_a_file_by_a_directory_or_the_reverse(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    assert "is not a directory" in mngr("pull", "foo:src", "README.md", code=1).err
    (mngr.repo / "app.py").mkdir()
    assert "is a directory" in mngr("pull", "foo:src/app.py", ".", code=1).err
    mngr("pull", "foo:src", "--merge", code=2)
    mngr("pull", "foo", "somewhere", code=2)


def test_pull_does_not_copy_a_link_out_of_the_work_dir(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    (mngr.get_work_dir("foo") / "evil").symlink_to("/etc/passwd")
    assert "refused" in mngr("pull", "foo:evil", cwd=tmp_path, code=1).err
    assert not (tmp_path / "evil").is_symlink()


@pytest.mark.parametrize(("link", "goal"), [("up", ".."), ("dir/up", "../.."), ("dir/name", "../../x")])
def test_pull_of_a_directory_refuses_a_link_to_the_directory_around_it(
    mngr: MngrProgram, tmp_path: Path, link: str, goal: str
) -> None:
    mngr("create", "foo", *RUN)
    path = mngr.get_work_dir("foo") / "out" / link
    path.parent.mkdir(parents=True)
    path.symlink_to(goal)
    assert "outside the directory" in mngr("pull", "foo:out", "came", cwd=tmp_path, code=1).err
    assert list(tmp_path.glob("came*")) == []


def test_pull_of_a_directory_keeps_links_inside_it(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    out = mngr.get_work_dir("foo") / "out"
    (out / "dir").mkdir(parents=True)
    (out / "here").symlink_to(".")
    (out / "dir/up").symlink_to("..")
    mngr("pull", "foo:out", "came", cwd=tmp_path)
    assert (tmp_path / "came/here").readlink() == Path() and (tmp_path / "came/dir/up").readlink() == Path("..")
