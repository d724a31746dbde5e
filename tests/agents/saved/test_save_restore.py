"""Tests that undestroy restores everything byte for byte: files, modes, links, index, branch, nested repositories."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mngr import AgentSpec, Fleet
from mngr.agents.saved import tar
from mngr.base.errors import MngrError
from mngr.base.untrusted_json import get_int
from tests.conftest import IS_FULL_SCALE, MngrProgram, run_git


@pytest.fixture
def fleet(mngr: MngrProgram) -> Fleet:
    return Fleet(str(mngr.home), cwd=str(mngr.repo))


def make(fleet: Fleet, name: str = "foo", **options: Any) -> Path:
    """Create an agent and return its work dir."""
    return Path(fleet.create(AgentSpec(address=name, command=["true"], **options)).work_dir)


def tree(root: Path) -> dict[str, tuple[str, int, bytes]]:
    """Return type, mode and contents of every path below a directory, except the top-level `.git`."""
    entries: dict[str, tuple[str, int, bytes]] = {}
    for top, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = os.path.join(top, name)
            relative = os.path.relpath(path, root)
            if relative == ".git" or relative.startswith(".git/"):
                continue
            info = os.lstat(path)
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISLNK(info.st_mode):
                entries[relative] = ("link", 0, os.fsencode(os.readlink(path)))
            elif stat.S_ISREG(info.st_mode):
                entries[relative] = ("file", mode, Path(path).read_bytes())
            else:
                entries[relative] = ("dir" if stat.S_ISDIR(info.st_mode) else "other", mode, b"")
    return entries


def index(work: Path) -> dict[str, str]:
    """Return everything that git reports of a work tree."""
    head = subprocess.run(["git", "-C", str(work), "symbolic-ref", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "branch": head.stdout,
        "head": run_git(work, "rev-parse", "HEAD"),
        "index": run_git(work, "ls-files", "-s", "-v", "-z"),
        "objects": run_git(
            work, "-c", "alias.look=!git ls-files -s | cut -d' ' -f2 | git cat-file --batch-check", "look"
        ),
        "staged": run_git(work, "diff", "--cached", "--raw", "--no-renames"),
        "status": run_git(work, "status", "--porcelain=v2", "--untracked-files=all"),
    }


def state(work: Path) -> dict[str, Any]:
    """Return the files and the git state of a work tree."""
    return {"tree": tree(work), **index(work)}


def round_trip(fleet: Fleet, work: Path, name: str = "foo") -> None:
    """Destroy and restore an agent, and assert that nothing has changed."""
    before = state(work)
    outcome = fleet.destroy([name], force=True)[0]
    assert outcome.ok, outcome.error
    assert not work.exists()
    restored = fleet.undestroy([name])[0]
    assert restored.ok, restored.error
    after = state(work)
    for key, value in before.items():
        assert after[key] == value, key


def write(work: Path, name: str | bytes, data: bytes, mode: int = 0o644) -> None:
    """Write a file with this mode, and create its parent directories."""
    path = os.path.join(os.fsencode(work), os.fsencode(name))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)


def commit(work: Path, *words: str) -> None:
    """Commit the index with a fixed author."""
    run_git(work, "-c", "user.name=A", "-c", "user.email=a@example.invalid", "commit", "-q", "--no-verify", *words)


def age(work: Path) -> None:
    """Make the files older than the index, so that git trusts their times and does not read them again."""
    for name in run_git(work, "ls-files", "-z").split("\0"):
        if name and not os.path.islink(work / name):
            os.utime(work / name, (1_700_000_000, 1_700_000_000))
    run_git(work, "update-index", "-q", "--really-refresh")


def collect_garbage(repo: Path) -> None:
    """Run `git gc` so that it deletes every unreachable object."""
    run_git(repo, "reflog", "expire", "--expire=now", "--all")
    run_git(repo, "gc", "-q", "--prune=now")


def make_nasty(work: Path) -> None:
    """Create commits, and everything in a work tree that `git add` and `git checkout` would lose or change."""
    for number in range(6):
        write(work, f"src/f{number}.txt", b"line\n" * number)
    write(work, "src/tool", b"#!/bin/sh\n", 0o755)
    os.symlink("f1.txt", work / "src" / "link")
    run_git(work, "add", "-A")
    commit(work, "-m", "mine")
    write(work, "src/f0.txt", b"staged\n")
    run_git(work, "add", "src/f0.txt")
    write(work, "src/f0.txt", b"staged and changed\n")
    run_git(work, "rm", "-q", "--cached", "src/f1.txt")  # a staged deletion of a file that still exists
    run_git(work, "rm", "-q", "src/f2.txt")
    (work / "src" / "f3.txt").unlink()  # an unstaged deletion
    run_git(work, "mv", "src/f4.txt", "src/renamed.txt")
    os.chmod(work / "src" / "f5.txt", 0o600)
    os.chmod(work / "src" / "tool", 0o700)
    for name in (
        "with space",
        "new\nline",
        "-dash",
        "back\\slash\\n",
        "ünï☃",
        b"\xff\xfe not utf-8",
        "*glob[",
        "tab\t",
        '"quoted"',
    ):
        write(work, name, b"\0\r\n raw")
    write(work, "deep/er/untracked.bin", os.urandom(3000), 0o755)
    os.symlink("/nowhere/at/all", work / "dangling")
    os.symlink("src", work / "to-a-directory")
    (work / "empty" / "inside").mkdir(parents=True)
    (work / "secret").mkdir(mode=0o700)
    write(work, "secret/key", b"k", 0o400)
    os.mkfifo(work / "pipe", 0o644)
    write(work, "planned.txt", b"later\n")
    run_git(work, "add", "-N", "planned.txt")
    write(work, "README.md", b"assumed unchanged, yet changed\n")
    run_git(work, "update-index", "--assume-unchanged", "README.md")
    write(work, "noise.log", b"ignored\n")
    write(work, "readonly/sub/untracked", b"u")
    for name in ("src", "readonly/sub", "readonly"):
        os.chmod(work / name, 0o555)


def test_undestroy_restores_a_complicated_worktree_byte_for_byte(fleet: Fleet) -> None:
    work = make(fleet)
    make_nasty(work)
    (work / "noise.log").unlink()
    round_trip(fleet, work)


def test_undestroy_restores_a_mirror_with_its_branches_and_stashes(fleet: Fleet, repo: Path) -> None:
    run_git(repo, "branch", "other")
    work = make(fleet, transfer="mirror")
    for number in (1, 2):
        write(work, "README.md", b"stashed %d\n" % number)
        run_git(work, "-c", "user.name=A", "-c", "user.email=a@example.invalid", "stash", "-q")
    run_git(work, "branch", "extra")
    run_git(work, "tag", "-a", "-m", "t", "v1")
    run_git(work, "config", "core.editor", "true")
    make_nasty(work)
    (work / "noise.log").unlink()
    refs = (
        run_git(work, "for-each-ref"),
        run_git(work, "stash", "list"),
        run_git(work, "config", "--local", "--list"),
    )
    round_trip(fleet, work)
    assert (
        run_git(work, "for-each-ref"),
        run_git(work, "stash", "list"),
        run_git(work, "config", "--local", "--list"),
    ) == refs
    run_git(work, "fsck", "--strict", "--no-dangling")
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()


def test_destroy_does_not_save_ignored_files_and_reports_their_size(fleet: Fleet) -> None:
    work = make(fleet)
    write(work, "build/big.bin", b"x" * 100_000)
    write(work, "noise.log", b"x" * 10)
    outcome = fleet.destroy(["foo"], force=True)[0]
    assert get_int(outcome.extra, "ignored_bytes") >= 100_000 and not outcome.extra["dirty"]
    assert any("ignored files" in note for note in outcome.notes)
    fleet.undestroy(["foo"])
    assert not (work / "build").exists() and not (work / "noise.log").exists()


@pytest.mark.parametrize("where", ["--global", "--local"])
def test_filters_and_line_ending_rules_do_not_change_restored_files(
    fleet: Fleet, repo: Path, tmp_path: Path, where: str
) -> None:
    filter_log = tmp_path / "ran"
    run_git(repo, "config", where, "filter.spy.clean", f"echo clean >>{filter_log}; tr a-z A-Z")
    run_git(repo, "config", where, "filter.spy.smudge", f"echo smudge >>{filter_log}; tr A-Z a-z")
    rules = "* text=auto\n*.spy filter=spy\n*.id ident\n*.crlf eol=crlf\n*.u16 working-tree-encoding=UTF-16 text\n"
    (repo / ".gitattributes").write_text(rules)
    for name, data in (
        ("a.spy", b"spied\n"),
        ("b.id", b"$Id$\n"),
        ("c.crlf", b"1\r\n2\r\n"),
        ("d.u16", "x\n".encode("utf-16")),
    ):
        (repo / name).write_bytes(data)
    run_git(repo, "add", "-A")
    run_git(repo, "commit", "-q", "-m", "rules")
    work = make(fleet)
    write(work, "mixed.txt", b"one\r\ntwo\n")  # git add converts it to LF, and then reports the file as unchanged.
    run_git(work, "add", "mixed.txt")
    write(work, "more.spy", b"untracked\n")
    age(work)
    before = state(work)
    os.utime(work / "a.spy")  # Now git would run the filter to see whether the file has changed.
    filter_log.unlink()
    assert fleet.destroy(["foo"], force=True)[0].ok
    assert fleet.undestroy(["foo"])[0].ok
    assert not filter_log.exists(), filter_log.read_text()
    assert state(work) == before


def test_autocrlf_does_not_change_restored_files(fleet: Fleet, repo: Path) -> None:
    run_git(repo, "config", "core.autocrlf", "true")
    work = make(fleet)
    assert (work / "README.md").read_bytes() == b"hello\r\n"
    age(work)
    write(work, "src/app.py", b"lf only\n")
    round_trip(fleet, work)


def test_undestroy_restores_nested_repositories_completely(fleet: Fleet) -> None:
    work = make(fleet)
    for name in ("nested", "deep/nested", "src/inner"):
        (work / name).mkdir(parents=True, exist_ok=True)
        run_git(work / name, "init", "-q")
        write(work / name, "file", b"x\n")
        write(work / name, "ignored.log", b"kept, for it is the nested one's affair\n")
    run_git(work / "nested", "add", "file")
    commit(work / "nested", "-m", "inside")
    write(work, "fake/.git/not-a-repository", b"but somebody's\n")
    write(work, "fake/beside", b"y")
    before = run_git(work / "nested", "rev-parse", "HEAD")
    round_trip(fleet, work)
    assert run_git(work / "nested", "rev-parse", "HEAD") == before


def test_undestroy_restores_submodules_even_in_another_work_dir(
    fleet: Fleet, mngr: MngrProgram, tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    run_git(library, "init", "-q", "-b", "main")
    write(library, "lib.txt", b"lib\n")
    run_git(library, "add", "-A")
    commit(library, "-m", "lib")
    work = make(fleet)
    run_git(work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    commit(work, "-m", "with a submodule")
    write(work / "lib", "lib.txt", b"changed inside\n")
    round_trip(fleet, work)
    fleet.destroy(["foo"], force=True)
    work.mkdir()  # The old path is taken.
    # git's internal name for the worktree is taken, too.
    run_git(mngr.repo, "worktree", "add", "-q", "--detach", str(tmp_path / "foo"))
    assert fleet.undestroy(["foo"])[0].ok
    moved = mngr.get_work_dir("foo")
    assert moved != work and run_git(moved / "lib", "status", "--porcelain") == "M lib.txt"
    assert run_git(moved / "lib", "rev-parse", "--show-toplevel") == str(moved / "lib")


def test_undestroy_restores_an_unfinished_merge(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    run_git(work, "checkout", "-q", "-b", "side")
    write(work, "README.md", b"theirs\n")
    commit(work, "-a", "-m", "theirs")
    run_git(work, "checkout", "-q", "mngr/foo")
    write(work, "README.md", b"ours\n")
    commit(work, "-a", "-m", "ours")
    subprocess.run(["git", "-C", str(work), "merge", "side"], capture_output=True, check=False)
    assert "UU README.md" in run_git(work, "status", "--porcelain")
    run_git(work, "branch", "-q", "-D", "side")
    before = state(work)
    assert fleet.destroy(["foo"], force=True)[0].ok
    run_git(repo, "branch", "-q", "-D", "mngr/foo")
    collect_garbage(repo)
    assert fleet.undestroy(["foo"])[0].ok
    assert state(work) == before
    write(work, "README.md", b"both\n")
    run_git(work, "add", "README.md")
    commit(work, "-m", "merged")
    assert len(run_git(work, "rev-list", "--parents", "-1", "HEAD").split()) == 3


def test_undestroy_restores_a_detached_head_and_the_reflog(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    write(work, "a", b"1")
    run_git(work, "add", "a")
    commit(work, "-m", "a")
    run_git(work, "checkout", "-q", "--detach")
    write(work, "a", b"2")
    commit(work, "-a", "-m", "nobody's branch has this")
    run_git(work, "reset", "-q", "--hard", "HEAD~1")
    lost = run_git(work, "rev-parse", "HEAD@{1}")
    before = state(work)
    assert fleet.destroy(["foo"], force=True)[0].ok
    collect_garbage(repo)
    assert fleet.undestroy(["foo"])[0].ok
    assert state(work) == before and before["branch"] == ""
    # The reflog is part of the saved state.
    assert run_git(work, "log", "-1", "--format=%s", lost) == "nobody's branch has this"


def test_undestroy_with_another_umask_keeps_all_file_modes(fleet: Fleet) -> None:
    old = os.umask(0o002)
    try:
        work = make(fleet)
        write(work, "shared.txt", b"s", 0o664)
        before = state(work)
        assert before["tree"]["README.md"][1] == 0o664
        fleet.destroy(["foo"], force=True)
        assert (
            not (Path(fleet.list_trash()[0].trash_dir) / "work.tar").stat().st_size > 20480
        )  # The archive does not hold the whole tree.
        os.umask(0o027)
        assert fleet.undestroy(["foo"])[0].ok
    finally:
        os.umask(old)
    assert state(work) == before


def test_undestroy_restores_a_split_index_and_skip_worktree_files(fleet: Fleet) -> None:
    work = make(fleet)
    for number in range(4):
        write(work, f"src/{number}", b"x")
    run_git(work, "add", "-A")
    commit(work, "-m", "more")
    run_git(work, "update-index", "--split-index")
    write(work, "src/0", b"staged")
    run_git(work, "add", "src/0")
    run_git(work, "update-index", "--skip-worktree", "src/1", "src/2")
    (work / "src" / "1").unlink()
    write(work, "src/2", b"changed behind git's back")
    round_trip(fleet, work)


def test_undestroy_restores_a_sha256_repository(fleet: Fleet, repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    run_git(repo, "init", "-q", "-b", "main", "--object-format=sha256")
    run_git(repo, "add", "-A")
    commit(repo, "-m", "first")
    for name, mode in (("foo", "worktree"), ("bar", "mirror")):
        work = make(fleet, name, transfer=mode)
        make_nasty(work)
        (work / "noise.log").unlink()
        round_trip(fleet, work, name)


def test_destroy_adds_no_refs_or_objects_to_the_users_repository(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    make_nasty(work)
    tip = run_git(work, "rev-parse", "HEAD")
    objects = run_git(repo, "count-objects", "-v")
    fleet.destroy(["foo"], force=True)
    assert run_git(repo, "count-objects", "-v") == objects
    refs = run_git(repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert [ref.split()[0] for ref in refs] == ["refs/heads/main", "refs/heads/mngr/foo"]
    assert refs[1].split()[1] == tip
    trash_dir = fleet.list_trash()[0].trash_dir
    run_git(repo, "bundle", "verify", "-q", f"{trash_dir}/work.bundle")


def test_git_gc_in_the_source_does_not_damage_the_trash(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    make_nasty(work)
    (work / "noise.log").unlink()
    before = state(work)
    fleet.destroy(["foo"], force=True)
    run_git(repo, "branch", "-q", "-D", "mngr/foo")
    collect_garbage(repo)
    assert fleet.undestroy(["foo"])[0].ok
    assert state(work) == before


def test_the_saved_bundle_is_complete_when_no_branch_or_tag_has_the_base(
    fleet: Fleet, repo: Path, tmp_path: Path
) -> None:
    run_git(repo, "checkout", "-q", "--detach")
    write(repo, "README.md", b"on no branch\n")
    run_git(repo, "commit", "-q", "-a", "-m", "on no branch")
    base = run_git(repo, "rev-parse", "HEAD")
    work = make(fleet)
    run_git(repo, "checkout", "-q", "main")
    before = state(work)
    outcome = fleet.destroy(["foo"], force=True)[0]
    assert outcome.extra["branch_kept"] == "mngr/foo"
    trash_dir = fleet.list_trash()[0].trash_dir
    run_git(tmp_path, "clone", "-q", f"{trash_dir}/work.bundle", "whole")
    assert run_git(tmp_path / "whole", "rev-parse", "HEAD") == base
    shutil.rmtree(repo)
    restored = fleet.undestroy(["foo"])[0]
    assert restored.ok, restored.error
    after = state(work)
    assert after["tree"] == before["tree"] and after["head"] == before["head"]
    assert "now has its own repository" in restored.notes[0]


@pytest.mark.parametrize("work_is", ["committed", "staged"])
def test_undestroy_works_with_tags_of_any_kind_and_after_branches_were_deleted(
    fleet: Fleet, repo: Path, work_is: str
) -> None:
    run_git(repo, "tag", "-a", "noted", "-m", "a note")
    run_git(repo, "tag", "blob", "HEAD:README.md")
    run_git(repo, "tag", "tree", "HEAD^{tree}")
    run_git(repo, "checkout", "-q", "-b", "side")
    write(repo, "side.txt", b"the same\n")
    run_git(repo, "add", "-A")
    commit(repo, "-m", "side")
    run_git(repo, "checkout", "-q", "main")
    work = make(fleet, transfer="mirror")
    write(work, "mine.txt", b"the same\n")  # In the source only the branch that is deleted later has this blob.
    run_git(work, "add", "-A")
    if work_is == "committed":
        commit(work, "-m", "mine")
        run_git(work, "tag", "-a", "done", "-m", "mine")
    before = state(work)
    fleet.destroy(["foo"], force=True)
    assert fleet.undestroy(["foo"])[0].ok and state(work) == before
    fleet.destroy(["foo"], force=True)
    run_git(repo, "branch", "-q", "-D", "side")
    collect_garbage(repo)
    restored = fleet.undestroy(["foo"])[0]
    assert restored.ok, restored.error
    assert list(restored.notes) == [
        "mngr did not restore refs/heads/side, because the source repository no longer has its commit"
    ]
    assert state(work) == before
    assert run_git(work, "fsck", "--connectivity-only") == ""


def test_undestroy_fails_with_a_clear_error_when_the_source_is_gone(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    write(work, "a", b"1")
    fleet.destroy(["foo"], force=True)
    repo.rename(repo.with_name("moved"))
    restored = fleet.undestroy(["foo"])[0]
    assert not restored.ok and "was created from no longer exists" in (restored.error or "")
    assert fleet.list().agents == [] and len(fleet.list_trash()) == 1
    repo.with_name("moved").rename(repo)
    assert fleet.undestroy(["foo"])[0].ok
    assert (work / "a").read_bytes() == b"1"


def test_undestroy_fails_with_a_clear_error_when_the_source_lost_the_base(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    write(work, "a", b"1")
    run_git(work, "add", "a")
    commit(work, "-m", "a")
    fleet.destroy(["foo"], force=True)
    shutil.rmtree(repo)
    repo.mkdir()
    run_git(repo, "init", "-q")
    restored = fleet.undestroy(["foo"])[0]
    assert not restored.ok and "no longer has the commits that the saved work is based on" in (restored.error or "")
    assert fleet.list().agents == [] and not work.exists()


def test_undestroy_restores_a_copy_and_destroy_keeps_a_directory_that_is_used_in_place(
    fleet: Fleet, tmp_path: Path
) -> None:
    work = make(fleet, transfer="copy")
    write(work, "odd\nname", b"\r\n", 0o600)
    (work / "empty").mkdir()
    (work / "README.md").unlink()
    before = tree(work)
    assert fleet.destroy(["foo"], force=True)[0].ok and not work.exists()
    assert fleet.undestroy(["foo"])[0].ok
    assert tree(work) == before
    plain = tmp_path / "plain"
    plain.mkdir()
    write(plain, "mine", b"m")
    for name in ("bar", "baz"):  # Both agents use the same directory.
        fleet.create(AgentSpec(address=name, command=["true"], transfer="none", source=str(plain)))
    for name in ("bar", "baz"):
        assert fleet.destroy([name], force=True)[0].ok
        assert tree(plain) == {"mine": ("file", 0o644, b"m")}
    for name in ("bar", "baz"):
        assert fleet.undestroy([name])[0].ok and fleet.get(name).work_dir == str(plain)


def test_a_work_dir_without_its_git_link_is_saved_as_files(fleet: Fleet) -> None:
    work = make(fleet)
    (work / ".git").unlink()
    write(work, "a", b"1", 0o600)
    before = tree(work)
    assert fleet.destroy(["foo"], force=True)[0].ok
    assert fleet.undestroy(["foo"])[0].ok
    assert tree(work) == before
    assert run_git(work, "status", "--porcelain") == "?? a"


@pytest.mark.parametrize("mode", ["worktree", "mirror"])
def test_an_agent_with_a_damaged_index_can_be_destroyed_and_restored(fleet: Fleet, repo: Path, mode: str) -> None:
    work = make(fleet, transfer=mode)
    write(work, "a", b"1")
    run_git(work, "add", "a")
    commit(work, "-m", "a")
    write(work, "b", b"2")
    tip = run_git(work, "rev-parse", "HEAD")
    Path(run_git(work, "rev-parse", "--path-format=absolute", "--git-dir"), "index").write_bytes(
        b"DIRC and then nothing"
    )
    before = tree(work)
    outcome = fleet.destroy(["foo"], force=True)[0]
    assert outcome.ok, outcome.error
    if mode == "worktree":
        run_git(repo, "branch", "-q", "-D", "mngr/foo")
        collect_garbage(repo)
    restored = fleet.undestroy(["foo"])[0]
    assert restored.ok, restored.error
    assert tree(work) == before and run_git(work, "rev-parse", "HEAD") == tip


def test_undestroy_restores_the_branch_of_a_work_dir_that_was_deleted(fleet: Fleet, repo: Path) -> None:
    work = make(fleet)
    write(work, "a", b"1")
    run_git(work, "add", "a")
    commit(work, "-m", "a")
    tip = run_git(work, "rev-parse", "HEAD")
    shutil.rmtree(work)
    assert fleet.destroy(["foo"], force=True)[0].ok
    run_git(repo, "branch", "-q", "-D", "mngr/foo")
    assert fleet.undestroy(["foo"])[0].ok
    assert run_git(work, "rev-parse", "HEAD") == tip and run_git(work, "status", "--porcelain") == ""


def test_an_archive_that_could_write_outside_is_refused(tmp_path: Path) -> None:
    import io
    import tarfile

    def is_refused(*members: tuple[str, bytes, str]) -> bool:
        path = tmp_path / "x.tar"
        with tarfile.open(path, "w") as file:
            for name, kind, link in members:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, link
                file.addfile(member, io.BytesIO())
        try:
            tar.check_archive(str(path), refuse=(".git",))
        except MngrError:
            return True
        return False

    assert is_refused(("../x", tarfile.REGTYPE, ""))
    assert is_refused(("/etc/x", tarfile.REGTYPE, ""))
    assert is_refused(("a/../../x", tarfile.REGTYPE, ""))
    assert is_refused(("d", tarfile.SYMTYPE, "/etc"), ("d/x", tarfile.REGTYPE, ""))
    assert is_refused(("x", tarfile.LNKTYPE, "/etc/passwd"))
    assert is_refused(("x", tarfile.CHRTYPE, ""))
    assert is_refused(("./.git/config", tarfile.REGTYPE, ""))
    assert not is_refused(
        ("d", tarfile.SYMTYPE, "/etc"), ("./e/x", tarfile.REGTYPE, ""), ("e/.git/config", tarfile.REGTYPE, "")
    )


_names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..") and name.lower() != ".git"
)
_leaves = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=40), st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o777])),
    st.tuples(st.just("link"), _names, st.just(0)),
)
_trees = st.recursive(_leaves, lambda inner: st.dictionaries(_names, inner, max_size=4), max_leaves=8)


def _plant(parent: Path, name: str, description: Any) -> None:
    """Create a file, link or directory tree as described."""
    path = parent / name
    if isinstance(description, dict):
        path.mkdir()
        for inner, nested in description.items():
            _plant(path, inner, nested)
    elif description[0] == "link":
        os.symlink(description[1], path)
    else:
        path.write_bytes(description[1])
        path.chmod(description[2])


@settings(
    max_examples=200 if IS_FULL_SCALE else 6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    first=st.dictionaries(_names, _trees, max_size=4),
    then=st.dictionaries(_names, _trees, max_size=4),
    stage=st.booleans(),
)
def test_undestroy_restores_any_tree(fleet: Fleet, first: dict[str, Any], then: dict[str, Any], stage: bool) -> None:
    """Commit some files, replace some of them, and stage some of the changes."""
    if any(agent.name == "any" for agent in fleet.list().agents):
        fleet.destroy(["any"], force=True)
    for trashed in fleet.list_trash():
        shutil.rmtree(trashed.trash_dir)
    work = make(fleet, "any", branch=f":any-{os.urandom(4).hex()}")
    for area in (work / "area",):
        area.mkdir()
        for name, description in first.items():
            _plant(area, name, description)
        run_git(work, "add", "-A", "-f")
        commit(work, "-m", "first", "--allow-empty")
        shutil.rmtree(area)
        area.mkdir()
        for name, description in then.items():
            _plant(area, name, description)
        if stage:
            run_git(work, "add", "-A", "-f")
    round_trip(fleet, work, "any")
