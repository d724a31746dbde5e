"""Files and git on every kind of host: the programs behind pull, push and diff."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.conftest import run_git
from tests.host.scripts.conftest import Land
from tests.support.repos import commit_file

LAST = ".mngr-last"


def run(land: Land, program: str, *words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A program with bytes in and out, which may fail."""
    return subprocess.run(land.argv(program, *words), input=stdin, env=land.env, capture_output=True, check=False)


def archive(*names: str, size: int = 30_000) -> bytes:
    """Files as push sends them."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as made:
        for name in (*names, LAST):
            member = tarfile.TarInfo(name)
            member.size = 0 if name == LAST else size
            made.addfile(member, io.BytesIO(b"x" * member.size))
    return data.getvalue()


def unpack(land: Land, root: Path, path: str, name: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return run(land, "unpack.sh", root, root / path, name, LAST, "as", stdin=data)


def test_files_are_put_in_their_place(plain: Land, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "there").mkdir(parents=True)
    long = "n" * 200
    for path, name, lands in (
        ("a/b", "f", "a/b"),
        ("there", "f", "there/f"),
        (long, long, long),
        ("-x", "-x", "-x"),
    ):
        done = unpack(plain, root, path, name, archive(name))
        assert (done.stdout, done.stderr) == (b"in\n" if path == "there" else b"", b"\nmngr ended 0")
        assert (root / lands).read_bytes() == b"x" * 30_000
    assert unpack(plain, root, "d", "d", archive("d/1", "d/é")).stderr == b"\nmngr ended 0"
    assert sorted(os.listdir(root / "d")) == ["1", "é"]
    assert not list(root.rglob(".mngr-*"))


@pytest.mark.parametrize("cut", [0, 100, 512, 5_000, 30_720, 31_000])
def test_a_stream_that_ends_early_leaves_everything_as_it_was(plain: Land, tmp_path: Path, cut: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one").write_text("old")
    for path, data in (("one", archive("one")), ("two", archive("two/1", "two/2", "two/3"))):
        done = unpack(plain, root, path, path, data[:cut])
        assert b"mngr ended " in done.stderr and not done.stderr.endswith(b"ended 0")
    assert os.listdir(root) == ["one"] and (root / "one").read_text() == "old"


def test_a_directory_as_a_stream(plain: Land, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    for name in ("-x", "two words", "new\nline", "d/é", "n" * 180):
        (source / name).write_text(name)
    (source / "link").symlink_to("-x")
    done = run(plain, "pack.sh", source, ".")
    assert done.stderr == b"\nmngr ended 0"
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as came:
        found = {os.path.normpath(member.name): member for member in came}
    assert set(found) == {".", "-x", "two words", "new\nline", "d", "d/é", "n" * 180, "link"}
    assert found["link"].linkname == "-x"
    with tarfile.open(fileobj=io.BytesIO(run(plain, "pack.sh", source, "-x").stdout)) as came:
        assert came.getnames() == ["-x"]
    assert run(plain, "pack.sh", source, "gone").stderr == b"\nmngr ended 4"
    assert run(plain, "pack.sh", source / "gone", ".").stderr == b"\nmngr ended 3"


def test_the_state_of_several_agents(plain: Land, repo: Path, tmp_path: Path) -> None:
    base = run_git(repo, "rev-parse", "HEAD")
    words: list[str] = []
    for number in range(6):
        work = tmp_path / f"w{number}"
        run_git(repo, "clone", "-q", str(repo), str(work))
        words += ["own", str(work), base, ""]
    made = commit_file(tmp_path / "w1")
    (tmp_path / "w2/.mngr").mkdir()
    (tmp_path / "w2/.mngr/x").touch()
    (tmp_path / "w3/.mngr").mkdir()
    (tmp_path / "w3/.mngr/settings.toml").touch()
    (tmp_path / "w4/é\nx").touch()
    (tmp_path / "w5/.git/HEAD").write_text("broken")
    run_git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "w6"))
    commit_file(tmp_path / "w6")
    words += ["shared", str(tmp_path / "w6"), base, "mine", "own", str(tmp_path / "gone"), base, ""]
    rows = sorted(plain.run("state.sh", *words).split("agent ")[1:])
    tails = [row.split("\n", 1)[1].strip() for row in rows]
    assert tails == ["clean", f"clean\n{made}", "clean", "dirty", "dirty", "unknown", "clean\n1", ""]


def test_a_merge_is_made_or_leaves_no_trace(plain: Land, repo: Path, tmp_path: Path) -> None:
    work = tmp_path / "w"
    run_git(repo, "clone", "-q", "-c", "user.name=a", "-c", "user.email=a@example.invalid", str(repo), str(work))
    mine = commit_file(repo, "mine.txt")
    run_git(work, "fetch", "-q", str(repo), f"{mine}:refs/mngr/pushed")
    (work / "README.md").write_text("draft\n")
    (work / "new é").write_text("new\n")
    words = ("own", work, "main", mine)
    assert run(plain, "merge.sh", *words, "keep", "m").returncode == 5
    assert plain.run("merge.sh", *words, "stash", "m").split() == ["fast_forward", mine]
    assert (work / "README.md").read_text() == "draft\n" and (work / "new é").read_text() == "new\n"
    assert run_git(work, "stash", "list") == "" and run_git(work, "for-each-ref", "refs/mngr") == ""
    assert "+draft" in plain.run("diff.sh", "own", work, mine, "all") and "new" in plain.run(
        "diff.sh", "own", work, mine, "all"
    )
    assert plain.run("diff.sh", "own", work, mine, "committed") == ""
    (work / "new é").unlink()
    old = commit_file(work, "README.md", "theirs\n")
    again = commit_file(repo, "README.md", "mine\n")
    run_git(work, "fetch", "-q", str(repo), f"{again}:refs/mngr/pushed")
    done = run(plain, "merge.sh", "own", work, "main", again, "keep", "m")
    assert (done.returncode, done.stdout) == (4, b"README.md\n")
    assert run_git(work, "rev-parse", "HEAD") == old and run_git(work, "status", "--porcelain") == ""
    assert run(plain, "merge.sh", "own", work, "other", again, "keep", "m").returncode == 7
    assert run(plain, "merge.sh", "own", tmp_path / "gone", "main", again, "keep", "m").returncode == 9
