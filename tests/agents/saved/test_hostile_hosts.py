"""Tests that a hostile host cannot make mngr read, write or run anything on this machine when an agent is saved."""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.agents.inspect import find
from mngr.agents.saved import fetch_to_temporary_home, tar
from mngr.agents.saved import save as saving
from mngr.base.errors import MngrError, Unreachable
from mngr.base.model import AgentRecord
from mngr.host.remote_host import RemoteHost
from tests.agents.saved.test_save_restore import commit, state, write
from tests.agents.saved.test_saving_on_hosts import away, back, fleet, make
from tests.conftest import MngrProgram, run_git
from tests.support.hosts.sshd import Farm
from tests.support.repos import plant

pytestmark = pytest.mark.hosts

__all__ = ["fleet"]

ID = "a-0123456789ab"
SECRET = "a secret of this machine"


@pytest.fixture
def secret(mngr: MngrProgram) -> Path:
    """A file outside of mngr's home whose contents must never be saved."""
    path = mngr.home.parent / "secret"
    path.write_text(SECRET)
    return path


class Liar:
    """A transport that answers a survey with one file, and every other program with another file."""

    def __init__(self, answer: Path, survey: Path | None = None) -> None:
        self.answer = answer
        self.survey = survey or answer

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        end_mark = re.findall(r"mngr-[0-9a-f]{16}:", program)[-1]
        file = self.survey if "work_dir_facts.sh" in program else self.answer
        return ["sh", "-c", f"cat {file}; printf '{end_mark}0;' >&2"]

    def make_lost_error(self, reason: str) -> Unreachable:
        return Unreachable("lost")

    def close(self) -> None:
        pass


def list_leaks(*directories: Path) -> list[str]:
    """Return the files that contain the secret."""
    leaks = []
    for directory in directories:
        for path in directory.rglob("*"):
            if path.is_file() and not path.is_symlink() and SECRET.encode() in path.read_bytes():
                leaks.append(str(path))
    return leaks


def test_links_in_an_agents_files_are_not_followed(fleet: Fleet, farm: Farm, mngr: MngrProgram, secret: Path) -> None:
    make(fleet)
    own = farm.home("h1") / ".mngr" / "agents" / fleet.get("foo").id
    for name in ("env", "events.jsonl", "transcript.jsonl", "gather", "landing"):
        (own / name).unlink(missing_ok=True)
        (own / name).symlink_to(secret)
    (own / "outputs" / "link").symlink_to(secret)
    os.mkfifo(own / "stopped.pipe")
    away(fleet, "foo")
    (outcome,) = fleet.undestroy(["foo"])
    assert not outcome.ok and "env" in (outcome.error or "")  # An agent without its variables cannot be restored.
    assert list_leaks(mngr.home / "trash", farm.home("h1")) == []
    assert secret.read_text() == SECRET


def test_a_work_dir_that_was_replaced_by_a_link_is_refused(
    fleet: Fleet, farm: Farm, mngr: MngrProgram, secret: Path
) -> None:
    work = make(fleet)
    work.rename(work.with_name("moved"))
    work.symlink_to(secret.parent)
    (outcome,) = fleet.destroy(["foo"], force=True)
    assert not outcome.ok and "is a link and not a directory" in (outcome.error or "")
    assert list_leaks(mngr.home / "trash") == [] and fleet.get("foo").state != "UNKNOWN"
    work.unlink()
    work.with_name("moved").rename(work)
    away(fleet, "foo")


def make_private(mngr: MngrProgram) -> tuple[Path, str]:
    """Create a local repository that the agent has never seen, and return it with its commit."""
    private = mngr.home.parent / "private"
    private.mkdir()
    run_git(private, "init", "-q", "-b", "main")
    write(private, "file", SECRET.encode())
    run_git(private, "add", "-A")
    commit(private, "-m", SECRET)
    return private, run_git(private, "rev-parse", "HEAD")


def make_record(**changes: Any) -> AgentRecord:
    """Return the record of a mirror agent on the hostile host."""
    values: dict[str, Any] = {
        "id": ID, "name": "foo", "kind": "command", "phase": "ready", "host": "liar", "provider": "ssh", "project": "p",
        "source": None, "work_dir": "/nowhere/work/foo", "transfer": "mirror", "branch": "main",
        "created_at": "2026-01-01T00:00:00.000Z", **changes,
    }  # fmt: skip
    return AgentRecord(**values)


def plant_pointer(trick: str, work: Path, private: Path) -> None:
    """Make the repository in `work` point to the private one in one of many ways."""
    git_dir = work / ".git"
    if trick == "objects":
        (git_dir / "objects").rename(git_dir / "mine")
        (git_dir / "objects").symlink_to(private / ".git" / "objects")
    elif trick == "pack":
        run_git(private, "repack", "-adq")
        (git_dir / "objects" / "pack").rmdir()
        (git_dir / "objects" / "pack").symlink_to(private / ".git" / "objects" / "pack")
    elif trick == "alternates":
        (git_dir / "objects" / "info" / "alternates").write_text(f"{private}/.git/objects\n")
    elif trick == "commondir":
        (git_dir / "commondir").write_text(f"{private}/.git\n")
    elif trick == "worktree":
        run_git(work, "config", "core.worktree", str(private))
    elif trick == "refs":
        (git_dir / "refs" / "heads").rename(git_dir / "mine")
        (git_dir / "refs" / "heads").symlink_to(private / ".git" / "refs" / "heads")
    elif trick == "head":
        (git_dir / "HEAD").unlink()
        (git_dir / "HEAD").symlink_to(private / "file")
    elif trick == "include":
        run_git(work, "config", "include.path", str(private / "file"))
    else:
        git_dir.rename(work / "mine")
        if trick == "gitfile":
            git_dir.write_text(f"gitdir: {private}/.git\n")
        else:
            git_dir.symlink_to(private / ".git")


def holds_commit(bundle: Path, scratch: Path, commit_id: str) -> bool:
    """True when a new repository with the bundle's objects has this commit."""
    subprocess.run(["git", "init", "-q", "--bare", str(scratch)], check=True)
    subprocess.run(["git", "-C", str(scratch), "bundle", "unbundle", str(bundle)], capture_output=True, check=False)
    lookup = subprocess.run(["git", "-C", str(scratch), "cat-file", "-e", commit_id], capture_output=True, check=False)
    return lookup.returncode == 0


@pytest.mark.parametrize(
    "trick",
    [
        "objects",
        "pack",
        "alternates",
        "commondir",
        "gitfile",
        "gitlink",
        "worktree",
        "refs",
        "head",
        "include",
    ],
)
def test_a_repository_that_points_to_a_local_one_reveals_nothing_of_it(
    fleet: Fleet, mngr: MngrProgram, tmp_path: Path, trick: str
) -> None:
    """The host has no such path, so only git on this machine could follow it."""
    private, tip = make_private(mngr)
    remote_home = tmp_path / "there"
    work = remote_home / "work" / "foo"
    (remote_home / "agents" / ID).mkdir(parents=True)
    (remote_home / "agents" / ID / "env").write_text("export A=b\n")
    work.mkdir(parents=True)
    run_git(work, "init", "-q", "-b", "main")
    write(work, "draft", b"mine")
    run_git(work, "add", "-A")
    commit(work, "-m", "mine")
    git_dir = work / ".git"
    (git_dir / "refs" / "heads" / "stolen").write_text(f"{tip}\n")
    plant_pointer(trick, work, private)
    names = ["work/foo", f"agents/{ID}"]
    subprocess.run(["tar", "-C", str(remote_home), "-cf", str(tmp_path / "come.tar"), *names], check=True)
    kind = "borrows" if trick in ("alternates", "commondir") else "file" if trick == "gitfile" else "dir"
    (tmp_path / "survey").write_bytes(f"umask 022\0git {kind}\0".encode())
    host = RemoteHost("liar", "ssh", Liar(tmp_path / "come.tar", tmp_path / "survey"), "/nowhere", 0)
    saved_dir = tmp_path / "kept"
    fetch_to_temporary_home.save_agent(
        fleet.context, host, make_record(), saving.SaveRequest(target=str(saved_dir), why="test")
    )
    assert list_leaks(saved_dir) == []
    with (
        tarfile.open(saved_dir / "work.tar")
        if (saved_dir / "work.tar").exists()
        else tarfile.open(saved_dir / "git.tar") as file
    ):
        assert all(SECRET.encode() not in file.extractfile(member).read() for member in file if member.isreg())  # type: ignore[union-attr]
    if (saved_dir / "work.bundle").exists():
        assert not holds_commit(saved_dir / "work.bundle", tmp_path / "out.git", tip)


def test_programs_in_a_repositorys_settings_do_not_run_on_this_machine(
    fleet: Fleet, mngr: MngrProgram, tmp_path: Path
) -> None:
    proof = tmp_path / "ran"
    work = make(fleet)
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    write(work, "draft", b"mine")
    run_git(work, "add", "-A")
    commit(work, "-m", "mine")
    write(work, "draft", b"changed")
    plant(work, proof)
    before = (work / ".git" / "config").read_bytes()
    proof.unlink(missing_ok=True)
    # The programs may run on the host, but must not run when mngr reads the copy on this machine.
    with fetch_to_temporary_home.StagingHome(fleet.context) as home:
        host, record = find.get_agent(fleet.context, "foo")
        staged, _ = fetch_to_temporary_home.copy_agent_here(fleet.context, host, record, home)
        proof.unlink(missing_ok=True)
        origin = saving.CopyOrigin(record=record, umask="022")
        request = saving.SaveRequest(target=str(tmp_path / "kept"), why="test")
        saving.save_local_agent(home.host, staged, request, origin)
    assert not proof.exists()
    away(fleet, "foo")
    proof.unlink(missing_ok=True)
    back(fleet, on="@local")
    assert not proof.exists()
    restored_dir = Path(fleet.get("foo").work_dir)
    assert (restored_dir / ".git" / "config").read_bytes() == before and (
        restored_dir / "draft"
    ).read_bytes() == b"changed"


def test_pipes_are_restored_and_devices_are_refused(fleet: Fleet, farm: Farm, tmp_path: Path) -> None:
    work = make(fleet)
    (work / ".git" / "info").mkdir(exist_ok=True)
    for name in ("refs/heads/pipe", "info/pipe", "MERGE_HEAD"):
        os.mkfifo(work / ".git" / name)
    os.mkfifo(work / "pipe")
    before = sorted(os.listdir(work))
    away(fleet, "foo")
    back(fleet)
    assert sorted(os.listdir(work)) == before and (work / "pipe").is_fifo()
    if os.geteuid() == 0:
        os.mknod(work / "null", 0o20666, os.makedev(1, 3))
        (outcome,) = fleet.destroy(["foo"], force=True)
        assert not outcome.ok and "could write outside" in (outcome.error or "")
        (work / "null").unlink()
    away(fleet, "foo")


def make_archive(*rows: tuple[str, bytes, str, bytes]) -> bytes:
    """Return an archive with an entry for each (name, type, link, contents)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        for name, kind, link, data in rows:
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = kind, link, len(data)
            member.mode = 0o755
            file.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


TOP = (("agents/" + ID, tarfile.DIRTYPE, "", b""), ("work/foo", tarfile.DIRTYPE, "", b""))


@pytest.mark.parametrize(
    "rows",
    [
        [("/etc/cron.d/x", tarfile.REGTYPE, "", b"x")],
        [("work/foo/../../../x", tarfile.REGTYPE, "", b"x")],
        [("elsewhere", tarfile.REGTYPE, "", b"x")],
        [("work/foo/l", tarfile.SYMTYPE, "/tmp", b""), ("work/foo/l/x", tarfile.REGTYPE, "", b"x")],
        [("work/foo/l", tarfile.SYMTYPE, "/tmp", b""), ("work/foo/l", tarfile.DIRTYPE, "", b""), ("work/foo/l/x", tarfile.REGTYPE, "", b"x")],
        [("work/foo/l", tarfile.LNKTYPE, "/etc/passwd", b"")],
        [("work/foo/l", tarfile.LNKTYPE, "../../../../etc/passwd", b"")],
        [("work/foo/d", tarfile.CHRTYPE, "", b"")],
        [("work/foo/x", tarfile.REGTYPE, "", b"x"), ("work/foo/x", tarfile.SYMTYPE, "/etc", b"")],
        [("work/foo/x", tarfile.GNUTYPE_SPARSE, "", b"")],
        [("work/foo/" + "d/" * 300 + "x", tarfile.REGTYPE, "", b"x")],
    ],
)  # fmt: skip
def test_an_archive_from_a_host_that_could_write_outside_is_refused(
    fleet: Fleet, tmp_path: Path, rows: list[Any]
) -> None:
    (tmp_path / "evil.tar").write_bytes(make_archive(*TOP, *rows))
    host = RemoteHost("liar", "ssh", Liar(tmp_path / "evil.tar"), "/nowhere", 0)
    with fetch_to_temporary_home.StagingHome(fleet.context) as home, pytest.raises(MngrError):
        fetch_to_temporary_home._fetch_files(host, ID, "foo", "", [], home)
    assert not list(Path(fleet.context.home.cache, "stage").iterdir())


def test_an_archive_with_a_link_and_a_directory_of_the_same_name_is_refused(tmp_path: Path) -> None:
    rows = [
        ("l", tarfile.SYMTYPE, "/tmp", b""),
        ("l", tarfile.DIRTYPE, "", b""),
        ("l/x", tarfile.REGTYPE, "", b"x"),
    ]
    (tmp_path / "evil.tar").write_bytes(make_archive(*rows))
    with pytest.raises(MngrError, match="could write outside"):
        tar.check_archive(str(tmp_path / "evil.tar"))


def test_entries_after_the_end_of_an_archive_are_not_unpacked(fleet: Fleet, tmp_path: Path) -> None:
    """A single empty block ends the archive for some readers and not for others."""
    first, more = make_archive(*TOP), make_archive(("work/foo/late", tarfile.SYMTYPE, "/etc", b""))
    end = first.rstrip(b"\0")
    end += b"\0" * (-len(end) % 512)
    (tmp_path / "evil.tar").write_bytes(end + b"\0" * 512 + more)
    host = RemoteHost("liar", "ssh", Liar(tmp_path / "evil.tar"), "/nowhere", 0)
    with fetch_to_temporary_home.StagingHome(fleet.context) as home:
        try:
            fetch_to_temporary_home._fetch_files(host, ID, "foo", "", [], home)
        except MngrError:
            return
        assert not os.path.lexists(os.path.join(home.root, "work", "foo", "late"))


def test_an_agent_with_an_unreadable_repository_is_saved_as_files(fleet: Fleet, mngr: MngrProgram) -> None:
    """HEAD points outside of the repository, and the index is damaged."""
    work = make(fleet)
    write(work, "draft", b"mine")
    (work / ".git" / "HEAD").write_text("ref: refs/heads/../../../etc/passwd\n")
    (work / ".git" / "index").write_bytes(b"DIRC and then nothing")
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    away(fleet, "foo")
    back(fleet)
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before


def test_packs_that_both_sides_have_are_not_transferred(fleet: Fleet, farm: Farm, mngr: MngrProgram) -> None:
    write(mngr.repo, "big.bin", os.urandom(3_000_000))
    for number in range(120):
        write(mngr.repo, f"many/{number}", b"%d\n" % number)
    run_git(mngr.repo, "add", "-A")
    commit(mngr.repo, "-m", "big")
    run_git(mngr.repo, "rm", "-q", "big.bin")
    commit(mngr.repo, "-m", "not in the work tree")
    run_git(mngr.repo, "repack", "-adq")
    work = make(fleet)
    write(work, "draft", b"mine")
    commit(work, "--allow-empty", "-m", "mine")
    before = state(work)
    sizes: list[int] = []
    real = tar.check_archive

    def check(path: str, **options: Any) -> dict[str, str]:
        sizes.append(os.path.getsize(path))
        return real(path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tar, "check_archive", check)
        away(fleet, "foo")
    assert sizes and max(sizes) < 1_000_000
    back(fleet)
    assert state(work) == before and run_git(work, "log", "--format=%s").split("\n")[0] == "mine"
    run_git(work, "fsck", "--strict", "--no-dangling")
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()
    # If the host's copy of the source lacks objects that the agent needs, mngr sends all of them.
    away(fleet, "foo")
    (cache,) = (farm.home("h1") / ".mngr" / "cache" / "sources").iterdir()
    run_git(mngr.repo, "checkout", "-q", "--orphan", "fresh")
    commit(mngr.repo, "-m", "fresh")
    base = run_git(mngr.repo, "rev-parse", "main")
    run_git(mngr.repo, "branch", "-q", "-M", "main", "kept")
    run_git(cache, "update-ref", "-d", "refs/heads/main")
    run_git(cache, "reflog", "expire", "--expire=now", "--all")
    run_git(cache, "gc", "-q", "--prune=now")
    back(fleet)
    assert state(work) == before and run_git(work, "merge-base", "HEAD", base) == base


def test_a_host_cannot_make_pull_move_another_branch_of_the_user(farm: Farm, mngr: MngrProgram) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    run_git(mngr.repo, "branch", "feature")
    mngr("create", "foo@h1", "--branch", "feature", "--", "sleep", "1000")
    mngr("exec", "foo", "--", "git", "commit", "-q", "--allow-empty", "-m", "work")
    mngr("pull", "foo")
    assert run_git(mngr.repo, "log", "-1", "--format=%s", "feature") == "work"
    before = run_git(mngr.repo, "rev-parse", "main")
    mngr("exec", "foo", "--", "git", "branch", "-f", "main", "feature")
    record = farm.home("h1") / ".mngr/agents" / mngr.get_agent("foo")["id"] / "agent.json"
    record.write_text(record.read_text().replace('"branch":"feature"', '"branch":"main"'))
    assert mngr.get_agent("foo")["branch"] == "main"
    assert "but mngr did not give it that branch" in mngr("pull", "foo", code=1).err
    assert run_git(mngr.repo, "rev-parse", "main") == before
    mngr("destroy", "--force", "foo")
    assert list((mngr.home / "names").iterdir()) == []
