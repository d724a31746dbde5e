"""A repository that was brought to a host of every kind, copied for an agent there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mngr.host import scripts
from tests.conftest import run_git
from tests.host.scripts.conftest import Land


def source(tmp_path: Path) -> Path:
    """Two commits with a branch and a tag each, and one that nothing has."""
    repo = tmp_path / "repo"
    run_git(tmp_path, "init", "-q", "-b", "main", str(repo))
    for number in "12":
        (repo / "file").write_text(number)
        run_git(repo, "add", "file")
        run_git(repo, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", number)
        run_git(repo, "branch", f"b{number}")
        run_git(repo, "tag", f"t{number}")
    return repo


def brought(tmp_path: Path, repo: Path, *words: str) -> Path:
    """As `create` brings it to a host."""
    place = tmp_path / "home/cache/sources/0123.git"
    place.parent.mkdir(parents=True)
    run_git(tmp_path, "clone", "-q", "--bare", "--template=", *words, f"file://{repo}", str(place))
    return place


def mirror(land: Land, place: Path, work: Path, base: str, branch: str, new: str) -> int:
    words = [str(place), str(work), "sha1", base, branch, new, "user.name", "Ann"]
    argv = [str(land.bin / "sh"), "-c", scripts.read_program("mirror.sh"), "mirror.sh", *words]
    return subprocess.run(argv, env=land.env, check=False).returncode


def test_it_has_all_branches_and_tags_and_shares_no_file(plain: Land, tmp_path: Path) -> None:
    repo = source(tmp_path)
    place, work = brought(tmp_path, repo), tmp_path / "work"
    (place / "objects/pack/tmp_pack_x").write_text("half")
    (place / "objects/tmp_objdir-incoming-x").mkdir()
    assert mirror(plain, place, work, run_git(repo, "rev-parse", "b1"), "mngr/foo", "1") == 0
    shown = run_git(work, "for-each-ref", "--format=%(refname:short) %(subject)").split("\n")
    assert sorted(shown) == sorted(["b1 1", "b2 2", "main 2", "mngr/foo 1", "t1 1", "t2 2"])
    assert (work / "file").read_text() == "1" and run_git(work, "status", "--porcelain", "-b") == "## mngr/foo"
    assert run_git(work, "config", "user.name") == "Ann" and "dangling" not in run_git(work, "fsck", "--strict")
    assert not (work / ".git/objects/pack/tmp_pack_x").exists() and not list(work.glob(".git/objects/tmp_*"))
    assert {path.stat().st_nlink for path in work.glob(".git/objects/*/*") if path.is_file()} == {1}
    assert mirror(plain, place, tmp_path / "more", run_git(repo, "rev-parse", "b1"), "b2", "1") == 9


def test_a_branch_that_is_there_and_what_no_branch_has(plain: Land, tmp_path: Path) -> None:
    repo = source(tmp_path)
    place, work = brought(tmp_path, repo), tmp_path / "work"
    assert mirror(plain, place, work, run_git(repo, "rev-parse", "b1"), "b1", "0") == 0
    assert run_git(work, "rev-parse", "HEAD") == run_git(repo, "rev-parse", "b1") and "mngr/base" not in run_git(
        work, "for-each-ref"
    )
    run_git(place, "update-ref", "refs/mngr/base", run_git(repo, "rev-parse", "b2"))
    for name in ("heads/b2", "heads/main", "tags/t2"):
        run_git(place, "update-ref", "-d", f"refs/{name}")
    assert mirror(plain, place, tmp_path / "more", run_git(repo, "rev-parse", "b2"), "mngr/foo", "1") == 0
    assert (tmp_path / "more/file").read_text() == "2"


def test_a_shallow_one_stays_so(plain: Land, tmp_path: Path) -> None:
    repo = source(tmp_path)
    place, work = brought(tmp_path, repo, "--depth", "1"), tmp_path / "work"
    assert mirror(plain, place, work, run_git(repo, "rev-parse", "main"), "mngr/foo", "1") == 0
    assert run_git(work, "log", "--format=%s") == "2" and run_git(work, "fsck") == ""
