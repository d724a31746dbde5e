"""The scripts behind pull, push and diff, on every kind of host."""

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


def run_script(land: Land, program: str, *words: object, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run a script with bytes as input and output. It may fail."""
    return subprocess.run(land.argv(program, *words), input=stdin, env=land.env, capture_output=True, check=False)


def make_archive(*names: str, size: int = 30_000) -> bytes:
    """Return files as a tar stream, as push sends them."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in (*names, LAST):
            member = tarfile.TarInfo(name)
            member.size = 0 if name == LAST else size
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return data.getvalue()


def unpack(land: Land, root: Path, path: str, name: str, data: bytes) -> subprocess.CompletedProcess[bytes]:
    return run_script(land, "unpack_files.sh", root, root / path, name, LAST, "as", stdin=data)


def test_unpack_puts_files_and_directories_in_their_place(plain: Land, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "there").mkdir(parents=True)
    long_name = "n" * 200
    for path, name, target in (
        ("a/b", "f", "a/b"),
        ("there", "f", "there/f"),
        (long_name, long_name, long_name),
        ("-x", "-x", "-x"),
    ):
        result = unpack(plain, root, path, name, make_archive(name))
        assert (result.stdout, result.stderr) == (b"in\n" if path == "there" else b"", b"\nmngr ended 0")
        assert (root / target).read_bytes() == b"x" * 30_000
    assert unpack(plain, root, "d", "d", make_archive("d/1", "d/é")).stderr == b"\nmngr ended 0"
    assert sorted(os.listdir(root / "d")) == ["1", "é"]
    assert not list(root.rglob(".mngr-*"))


@pytest.mark.parametrize("cut", [0, 100, 512, 5_000, 30_720, 31_000])
def test_an_incomplete_stream_changes_nothing(plain: Land, tmp_path: Path, cut: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "one").write_text("old")
    for path, data in (("one", make_archive("one")), ("two", make_archive("two/1", "two/2", "two/3"))):
        result = unpack(plain, root, path, path, data[:cut])
        assert b"mngr ended " in result.stderr and not result.stderr.endswith(b"ended 0")
    assert os.listdir(root) == ["one"] and (root / "one").read_text() == "old"


def test_pack_writes_all_files_of_a_directory(plain: Land, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "d").mkdir(parents=True)
    for name in ("-x", "two words", "new\nline", "d/é", "n" * 180):
        (source / name).write_text(name)
    (source / "link").symlink_to("-x")
    result = run_script(plain, "pack_files.sh", source, ".")
    assert result.stderr == b"\nmngr ended 0"
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as tar:
        members = {os.path.normpath(member.name): member for member in tar}
    assert set(members) == {".", "-x", "two words", "new\nline", "d", "d/é", "n" * 180, "link"}
    assert members["link"].linkname == "-x"
    with tarfile.open(fileobj=io.BytesIO(run_script(plain, "pack_files.sh", source, "-x").stdout)) as tar:
        assert tar.getnames() == ["-x"]
    assert run_script(plain, "pack_files.sh", source, "gone").stderr == b"\nmngr ended 4"
    assert run_script(plain, "pack_files.sh", source / "gone", ".").stderr == b"\nmngr ended 3"


def test_state_reports_several_agents_at_once(plain: Land, repo: Path, tmp_path: Path) -> None:
    base = run_git(repo, "rev-parse", "HEAD")
    words: list[str] = []
    for number in range(6):
        work = tmp_path / f"w{number}"
        run_git(repo, "clone", "-q", str(repo), str(work))
        words += ["own", str(work), base, ""]
    commit = commit_file(tmp_path / "w1")
    (tmp_path / "w2/.mngr").mkdir()
    (tmp_path / "w2/.mngr/x").touch()
    (tmp_path / "w3/.mngr").mkdir()
    (tmp_path / "w3/.mngr/settings.toml").touch()
    (tmp_path / "w4/é\nx").touch()
    (tmp_path / "w5/.git/HEAD").write_text("broken")
    run_git(repo, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "w6"))
    commit_file(tmp_path / "w6")
    words += ["shared", str(tmp_path / "w6"), base, "mine", "own", str(tmp_path / "gone"), base, ""]
    rows = sorted(plain.run("git_state.sh", *words).split("agent ")[1:])
    answers = [row.split("\n", 1)[1].strip() for row in rows]
    assert answers == ["clean", f"clean\n{commit}", "clean", "dirty", "dirty", "unknown", "clean\n1", ""]


def test_a_merge_succeeds_or_leaves_no_trace(plain: Land, repo: Path, tmp_path: Path) -> None:
    work = tmp_path / "w"
    run_git(repo, "clone", "-q", "-c", "user.name=a", "-c", "user.email=a@example.invalid", str(repo), str(work))
    commit = commit_file(repo, "mine.txt")
    run_git(work, "fetch", "-q", str(repo), f"{commit}:refs/mngr/pushed")
    (work / "README.md").write_text("draft\n")
    (work / "new é").write_text("new\n")
    words = ("own", work, "main", commit)
    assert run_script(plain, "merge.sh", *words, "keep", "m").returncode == 5
    assert plain.run("merge.sh", *words, "stash", "m").split() == ["fast_forward", commit]
    assert (work / "README.md").read_text() == "draft\n" and (work / "new é").read_text() == "new\n"
    assert run_git(work, "stash", "list") == "" and run_git(work, "for-each-ref", "refs/mngr") == ""
    assert "+draft" in plain.run("diff.sh", "own", work, commit, "all") and "new" in plain.run(
        "diff.sh", "own", work, commit, "all"
    )
    assert plain.run("diff.sh", "own", work, commit, "committed") == ""
    (work / "new é").unlink()
    agent_commit = commit_file(work, "README.md", "theirs\n")
    conflicting_commit = commit_file(repo, "README.md", "mine\n")
    run_git(work, "fetch", "-q", str(repo), f"{conflicting_commit}:refs/mngr/pushed")
    result = run_script(plain, "merge.sh", "own", work, "main", conflicting_commit, "keep", "m")
    assert (result.returncode, result.stdout) == (4, b"README.md\n")
    assert run_git(work, "rev-parse", "HEAD") == agent_commit and run_git(work, "status", "--porcelain") == ""
    assert run_script(plain, "merge.sh", "own", work, "other", conflicting_commit, "keep", "m").returncode == 7
    assert (
        run_script(plain, "merge.sh", "own", tmp_path / "gone", "main", conflicting_commit, "keep", "m").returncode == 9
    )
