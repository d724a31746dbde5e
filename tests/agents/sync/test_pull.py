"""`mngr pull`: commits and outputs come home checked, and nothing of the user's is overwritten."""

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
    """The work dir of an agent with a repository of its own."""
    mngr("create", "foo", "--transfer", "mirror", *RUN)
    return mngr.get_work_dir("foo")


def outputs(mngr: MngrProgram, name: str = "foo") -> Path:
    return mngr.get_agent_dir(name) / "outputs"


def landed(mngr: MngrProgram) -> Path:
    return mngr.repo / ".mngr/outputs/foo"


# ---- commits


def test_commits_of_a_worktree_are_here_already(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    done = commit_file(mngr.get_work_dir("foo"))
    (row,) = mngr.run_json("pull", "foo")["results"]
    assert (row["ok"], row["branch"], row["commit"], row["commits"], row["outputs"]) == (
        True,
        "mngr/foo",
        done,
        1,
        0,
    )
    assert mngr("pull", "foo").out == f"mngr/foo is at {done[:12]} (1 new commit)\n"


def test_commits_of_a_mirror_come_under_the_same_branch_name(mngr: MngrProgram, mirror: Path) -> None:
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


def test_a_branch_that_has_gone_its_own_way_is_not_overwritten(mngr: MngrProgram, mirror: Path) -> None:
    commit_file(mirror, "one.txt")
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    mine = commit_file(mngr.repo, "mine.txt")
    ran = mngr("pull", "foo", code=1)
    assert "has commits the agent's does not have" in ran.err and "Hint:" in ran.err
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == mine
    assert list(list_refs(mngr.repo)) == ["refs/heads/main", "refs/heads/mngr/foo"]


def test_history_rewritten_by_the_agent_is_refused(mngr: MngrProgram, mirror: Path) -> None:
    old = commit_file(mirror, "one.txt")
    mngr("pull", "foo")
    run_git(mirror, "commit", "-q", "--amend", "-m", "other")
    mngr("pull", "foo", code=1)
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == old


def test_a_checked_out_clean_branch_is_brought_forward_in_place(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    done = commit_file(mirror, "one.txt")
    mngr("pull", "foo")
    assert run_git(mngr.repo, "rev-parse", "HEAD") == done
    assert (mngr.repo / "one.txt").exists() and run_git(mngr.repo, "status", "--porcelain") == ""


def test_a_checked_out_dirty_branch_is_left_alone(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "-b", "mngr/foo")
    before = run_git(mngr.repo, "rev-parse", "HEAD")
    (mngr.repo / "README.md").write_text("mine")
    commit_file(mirror, "one.txt")
    assert "uncommitted changes" in mngr("pull", "foo", code=1).err
    assert run_git(mngr.repo, "rev-parse", "HEAD") == before and (mngr.repo / "README.md").read_text() == "mine"


def test_merge_brings_the_work_into_the_current_branch(mngr: MngrProgram, mirror: Path) -> None:
    done = commit_file(mirror, "one.txt")
    mine = commit_file(mngr.repo, "mine.txt")
    assert mngr.run_json("pull", "foo", "--merge")["results"][0]["merged"] is True
    assert run_git(mngr.repo, "log", "-1", "--format=%P").split() == [mine, done]
    assert (mngr.repo / "one.txt").exists() and (mngr.repo / "mine.txt").exists()
    assert mngr.run_json("pull", "foo", "--merge")["results"][0]["merged"] is False


def test_a_merge_that_conflicts_is_undone(mngr: MngrProgram, mirror: Path) -> None:
    done = commit_file(mirror, "README.md", "theirs\n")
    mine = commit_file(mngr.repo, "README.md", "mine\n")
    ran = mngr("pull", "foo", "--merge", code=1)
    assert "conflicts in README.md; undone" in ran.err and "Hint: git merge mngr/foo" in ran.err
    assert run_git(mngr.repo, "rev-parse", "HEAD") == mine and run_git(mngr.repo, "status", "--porcelain") == ""
    assert run_git(mngr.repo, "rev-parse", "mngr/foo") == done


def test_a_merge_needs_a_branch_on_both_sides(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mngr.repo, "checkout", "-q", "--detach")
    commit_file(mirror, "one.txt")
    assert "detached" in mngr("pull", "foo", "--merge", code=1).err
    mngr("create", "bar", "--transfer", "copy", *RUN)
    assert "no branch" in mngr("pull", "bar", "--merge", code=1).err


def test_objects_that_git_would_not_make_are_refused(mngr: MngrProgram, mirror: Path) -> None:
    blob = run_git(mirror, "hash-object", "-w", "README.md")
    raw = b"100644 .git\0" + bytes.fromhex(blob)
    words = ["git", "-C", str(mirror), "hash-object", "-t", "tree", "-w", "--stdin", "--literally"]
    tree = subprocess.run(words, input=raw, capture_output=True, check=True).stdout.decode().strip()
    evil = run_git(mirror, "commit-tree", tree, "-p", "HEAD", "-m", "evil")
    run_git(mirror, "update-ref", "refs/heads/mngr/foo", evil)
    ran = mngr("pull", "foo", code=1)
    assert "was refused" in ran.err and "nothing was changed here" in ran.err
    assert list(list_refs(mngr.repo)) == ["refs/heads/main"]


def test_a_branch_that_is_gone_is_named(mngr: MngrProgram, mirror: Path) -> None:
    run_git(mirror, "checkout", "-q", "--detach")
    run_git(mirror, "branch", "-q", "-D", "mngr/foo")
    assert "no longer has the branch 'mngr/foo'" in mngr("pull", "foo", code=1).err


def test_many_objects_come_as_one_pack_and_few_as_git_keeps_them(mngr: MngrProgram, mirror: Path) -> None:
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


def test_a_repository_that_has_nothing_of_it_gets_all_of_it(mngr: MngrProgram, mirror: Path, tmp_path: Path) -> None:
    done = commit_file(mirror, "one.txt")
    other = tmp_path / "other"
    run_git(tmp_path, "init", "-q", "-b", "main", str(other))
    mngr("pull", "foo", cwd=other)
    assert run_git(other, "rev-parse", "mngr/foo") == done
    run_git(other, "fsck", "--strict")
    commit_file(other, "unrelated.txt")
    commit_file(mirror, "two.txt")
    assert mngr.run_json("pull", "foo", cwd=other)["results"][0]["commits"] == 1


def test_a_shallow_repository_stays_as_shallow_as_it_was(mngr: MngrProgram, tmp_path: Path) -> None:
    for number in range(3):
        commit_file(mngr.repo, f"{number}.txt")
    shallow = tmp_path / "shallow"
    run_git(tmp_path, "clone", "-q", "--depth", "2", f"file://{mngr.repo}", str(shallow))
    mngr("create", "foo", "--transfer", "mirror", *RUN, cwd=shallow)
    done = commit_file(mngr.get_work_dir("foo"), "one.txt")
    before = (shallow / ".git/shallow").read_text()
    mngr("pull", "foo", cwd=shallow)
    assert run_git(shallow, "rev-parse", "mngr/foo") == done and (shallow / ".git/shallow").read_text() == before
    run_git(shallow, "fsck", "--strict")
    mngr("pull", "foo")
    assert run_git(mngr.repo, "rev-list", "--count", "mngr/foo") == "5"
    assert not (mngr.repo / ".git/shallow").exists()


def test_repositories_with_long_hashes(mngr: MngrProgram, tmp_path: Path) -> None:
    repo = tmp_path / "long"
    run_git(tmp_path, "init", "-q", "--object-format=sha256", str(repo))
    commit_file(repo)
    mngr("create", "foo", "--transfer", "mirror", *RUN, cwd=repo)
    done = commit_file(mngr.get_work_dir("foo"), "one.txt")
    mngr("pull", "foo", cwd=repo)
    assert run_git(repo, "rev-parse", "mngr/foo") == done and len(done) == 64


def test_pulls_at_the_same_time_do_not_meet(mngr: MngrProgram, mirror: Path) -> None:
    mngr("create", "bar", "--transfer", "mirror", *RUN)
    done = [commit_file(mirror, "one.txt"), commit_file(mngr.get_work_dir("bar"), "two.txt")]
    ran = run_concurrently(*((mngr, ("pull", name)) for name in ("foo", "bar", "foo", "bar")))
    assert [end.returncode for end in ran] == [0, 0, 0, 0]
    assert [run_git(mngr.repo, "rev-parse", f"mngr/{name}") for name in ("foo", "bar")] == done
    run_git(mngr.repo, "fsck", "--strict")


# ---- outputs


def test_outputs_land_where_git_does_not_see_them(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    place = outputs(mngr)
    (place / "sub/empty").mkdir(parents=True)
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
        (place / name).write_text(name.encode("utf-8", "replace").decode())
    (place / "tool").write_text("#!/bin/sh\n")
    (place / "tool").chmod(0o4755)
    (place / "sub/link").symlink_to("../plain.txt")
    (place / "loop").symlink_to("loop")
    os.link(place / "plain.txt", place / "twice.txt")
    (row,) = mngr.run_json("pull", "foo")["results"]
    assert (row["outputs"], row["outputs_dir"]) == (12, str(landed(mngr)))
    came = {p.relative_to(landed(mngr)) for p in landed(mngr).rglob("*")}
    assert came == {p.relative_to(place) for p in place.rglob("*")}
    assert (landed(mngr) / "twice.txt").read_text() == "plain.txt"
    assert (landed(mngr) / "tool").stat().st_mode & 0o7777 == 0o755
    assert os.readlink(landed(mngr) / "sub/link") == "../plain.txt"
    assert run_git(mngr.repo, "status", "--porcelain") == ""
    mngr("create", "bar", *RUN)  # and so the project is not dirty


def test_outputs_are_brought_up_to_date(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    place = outputs(mngr)
    (place / "a").write_text("1")
    (place / "b").mkdir()
    (place / "b/x").write_text("x")
    (place / "c").symlink_to("b")
    mngr("pull", "foo")
    (place / "a").unlink()
    (place / "a").mkdir()
    (place / "a/in").write_text("2")
    (place / "c").unlink()
    (place / "c").write_text("3")
    mngr("pull", "foo")
    assert (landed(mngr) / "a/in").read_text() == "2"
    assert (landed(mngr) / "c").read_text() == "3" and not (landed(mngr) / "c").is_symlink()
    assert (landed(mngr) / "b/x").read_text() == "x"


def test_outputs_come_without_a_repository(mngr: MngrProgram, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    mngr("create", "foo", "--", "sh", "-c", "echo done >$MNGR_OUTPUT_DIR/x; sleep 1000", cwd=plain)
    assert mngr.run_json("pull", "foo", cwd=plain)["results"][0]["commit"] is None
    assert (plain / ".mngr/outputs/foo/x").read_text() == "done\n"


def test_an_agent_with_nothing_leaves_nothing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--transfer", "copy", *RUN)
    assert mngr("pull", "foo").out == "foo has no commits and no outputs\n"
    assert not (mngr.repo / ".mngr").exists()


def hostile(place: Path, outside: Path, how: str) -> None:
    match how:
        case "link to a file outside":
            (place / "x").symlink_to(outside / "secret")
        case "link up and out":
            (place / "x").symlink_to("../../../../../outside")
        case "link out through a link":
            (place / "d").symlink_to(".")
            (place / "x").symlink_to("d/d/..")
        case "link to the directory above":
            (place / "x").symlink_to("..")
        case "pipe":
            os.mkfifo(place / "x")
        case "too deep":
            deep = place
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
def test_hostile_outputs_are_refused(mngr: MngrProgram, tmp_path: Path, how: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    mngr("create", "foo", *RUN)
    hostile(outputs(mngr), outside, how)
    ran = mngr("pull", "foo", code=1)
    assert "Error: refused:" in ran.err and "Hint:" in ran.err
    for path in landed(mngr).rglob("*"):
        assert os.path.realpath(path).startswith(str(landed(mngr)))


def test_a_link_of_an_earlier_pull_is_not_written_through(mngr: MngrProgram, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    mngr("create", "foo", *RUN)
    landed(mngr).mkdir(parents=True)
    (landed(mngr) / "d").symlink_to(outside)
    (landed(mngr) / "f").symlink_to(outside / "f")
    (outputs(mngr) / "d").mkdir()
    (outputs(mngr) / "d/x").write_text("x")
    (outputs(mngr) / "f").write_text("f")
    mngr("pull", "foo")
    assert list(outside.iterdir()) == []
    assert (landed(mngr) / "d/x").read_text() == "x"


@pytest.mark.parametrize("part", [".mngr", ".mngr/outputs", ".mngr/outputs/foo"])
def test_outputs_do_not_follow_a_link_in_the_project(mngr: MngrProgram, tmp_path: Path, part: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    mngr("create", "foo", *RUN)
    (outputs(mngr) / "x").write_text("x")
    (mngr.repo / part).parent.mkdir(parents=True, exist_ok=True)
    (mngr.repo / part).symlink_to(outside)
    assert "is a link" in mngr("pull", "foo", code=1).err
    assert list(outside.iterdir()) == []


def test_the_outputs_directory_as_a_link_brings_nothing(mngr: MngrProgram, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    mngr("create", "foo", *RUN)
    outputs(mngr).rmdir()
    outputs(mngr).symlink_to(tmp_path)
    mngr("pull", "foo", code=1)
    assert not landed(mngr).exists()


# ---- paths


def test_files_and_directories_are_copied_like_cp(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    work = mngr.get_work_dir("foo")
    (work / "out/deep").mkdir(parents=True)
    (work / "out/deep/é\n-x").write_text("odd")
    (work / "-dash").write_text("dash")
    here = tmp_path / "here"
    here.mkdir()
    mngr("pull", "foo:README.md", cwd=here)
    assert (here / "README.md").read_text() == "hello\n"
    mngr("pull", "foo:src/app.py", "renamed.py", cwd=here)
    assert (here / "renamed.py").read_text() == "print('hi')\n"
    mngr("pull", "foo:out", cwd=here)
    assert (here / "out/deep/é\n-x").read_text() == "odd"
    (here / "out/own").write_text("own")
    mngr("pull", "foo:out/", ".", cwd=here)
    assert (here / "out/own").read_text() == "own"
    mngr("pull", "foo:-dash", "in/", cwd=here, code=1)
    (here / "in").mkdir()
    assert mngr.run_json("pull", "foo:-dash", "in", cwd=here)["results"][0]["path"] == str(here / "in/-dash")
    assert sorted(p.name for p in here.iterdir()) == ["README.md", "in", "out", "renamed.py"]


def test_a_whole_work_dir_comes_without_its_git(mngr: MngrProgram, mirror: Path, tmp_path: Path) -> None:
    mngr("pull", "foo:.", "all", cwd=tmp_path)
    assert (tmp_path / "all/src/app.py").exists()
    assert not (tmp_path / "all/.git").exists()


@pytest.mark.parametrize(
    ("path", "said"), [("nowhere", "has no 'nowhere'"), ("../x", "outside"), ("/etc/passwd", "outside")]
)
def test_paths_that_cannot_be_pulled(mngr: MngrProgram, path: str, said: str) -> None:
    mngr("create", "foo", *RUN)
    before = sorted(mngr.repo.iterdir())
    ran = mngr("pull", f"foo:{path}", code=1)
    assert said in ran.err and "Hint:" in ran.err
    assert sorted(mngr.repo.iterdir()) == before


def test_a_directory_does_not_become_a_file_nor_a_file_a_directory(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    assert "is not a directory" in mngr("pull", "foo:src", "README.md", code=1).err
    (mngr.repo / "app.py").mkdir()
    assert "is a directory" in mngr("pull", "foo:src/app.py", ".", code=1).err
    mngr("pull", "foo:src", "--merge", code=2)
    mngr("pull", "foo", "somewhere", code=2)


def test_a_link_that_leaves_is_not_copied(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    (mngr.get_work_dir("foo") / "evil").symlink_to("/etc/passwd")
    assert "refused" in mngr("pull", "foo:evil", cwd=tmp_path, code=1).err
    assert not (tmp_path / "evil").is_symlink()
