"""mirror.sh copies a cached repository for an agent, on hosts of every kind."""

from __future__ import annotations

import subprocess
from pathlib import Path

from mngr.host import scripts
from tests.conftest import run_git
from tests.host.scripts.conftest import Land


def make_source_repo(tmp_path: Path) -> Path:
    """Create a repository with two commits, each with a branch and a tag."""
    repo = tmp_path / "repo"
    run_git(tmp_path, "init", "-q", "-b", "main", str(repo))
    for number in "12":
        (repo / "file").write_text(number)
        run_git(repo, "add", "file")
        run_git(repo, "-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", number)
        run_git(repo, "branch", f"b{number}")
        run_git(repo, "tag", f"t{number}")
    return repo


def make_cached_repo(tmp_path: Path, repo: Path, *words: str) -> Path:
    """Create the cached copy of a repository as `create` does on a host."""
    cached_repo = tmp_path / "home/cache/sources/0123.git"
    cached_repo.parent.mkdir(parents=True)
    run_git(tmp_path, "clone", "-q", "--bare", "--template=", *words, f"file://{repo}", str(cached_repo))
    return cached_repo


def run_mirror(land: Land, cached_repo: Path, work: Path, base: str, branch: str, new: str) -> int:
    words = [str(cached_repo), str(work), "sha1", base, branch, new, "1", "user.name", "Ann"]
    argv = [str(land.bin / "sh"), "-c", scripts.read_program("mirror.sh"), "mirror.sh", *words]
    return subprocess.run(argv, env=land.env, check=False).returncode


def test_a_mirror_has_all_branches_and_tags_and_shares_no_file(plain: Land, tmp_path: Path) -> None:
    repo = make_source_repo(tmp_path)
    cached_repo, work = make_cached_repo(tmp_path, repo), tmp_path / "work"
    (cached_repo / "objects/pack/tmp_pack_x").write_text("half")
    (cached_repo / "objects/tmp_objdir-incoming-x").mkdir()
    assert run_mirror(plain, cached_repo, work, run_git(repo, "rev-parse", "b1"), "mngr/foo", "1") == 0
    shown = run_git(work, "for-each-ref", "--format=%(refname:short) %(subject)").split("\n")
    assert sorted(shown) == sorted(["b1 1", "b2 2", "main 2", "mngr/foo 1", "t1 1", "t2 2"])
    assert (work / "file").read_text() == "1" and run_git(work, "status", "--porcelain", "-b") == "## mngr/foo"
    assert run_git(work, "config", "user.name") == "Ann" and "dangling" not in run_git(work, "fsck", "--strict")
    assert not (work / ".git/objects/pack/tmp_pack_x").exists() and not list(work.glob(".git/objects/tmp_*"))
    assert {path.stat().st_nlink for path in work.glob(".git/objects/*/*") if path.is_file()} == {1}
    assert run_mirror(plain, cached_repo, tmp_path / "more", run_git(repo, "rev-parse", "b1"), "b2", "1") == 9


def test_a_mirror_starts_at_an_existing_branch_or_at_a_commit_on_no_branch(plain: Land, tmp_path: Path) -> None:
    repo = make_source_repo(tmp_path)
    cached_repo, work = make_cached_repo(tmp_path, repo), tmp_path / "work"
    assert run_mirror(plain, cached_repo, work, run_git(repo, "rev-parse", "b1"), "b1", "0") == 0
    assert run_git(work, "rev-parse", "HEAD") == run_git(repo, "rev-parse", "b1") and "mngr/base" not in run_git(
        work, "for-each-ref"
    )
    run_git(cached_repo, "update-ref", "refs/mngr/base", run_git(repo, "rev-parse", "b2"))
    for name in ("heads/b2", "heads/main", "tags/t2"):
        run_git(cached_repo, "update-ref", "-d", f"refs/{name}")
    assert run_mirror(plain, cached_repo, tmp_path / "more", run_git(repo, "rev-parse", "b2"), "mngr/foo", "1") == 0
    assert (tmp_path / "more/file").read_text() == "2"


def test_a_mirror_of_a_shallow_repository_is_shallow(plain: Land, tmp_path: Path) -> None:
    repo = make_source_repo(tmp_path)
    cached_repo, work = make_cached_repo(tmp_path, repo, "--depth", "1"), tmp_path / "work"
    assert run_mirror(plain, cached_repo, work, run_git(repo, "rev-parse", "main"), "mngr/foo", "1") == 0
    assert run_git(work, "log", "--format=%s") == "2" and run_git(work, "fsck") == ""
