"""Files between an agent's host and here, as a tar stream. What comes from an agent is checked, never trusted."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from typing import IO

from mngr.agents.sync.transfer_limits import CHUNK_BYTES, LimitedReader, TransferLimits, format_size
from mngr.base import names, shell
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.model import AgentRecord
from mngr.host import scripts
from mngr.host.protocol import Host

MAX_DEPTH = 100
# What tar says of files that change or go while it reads them, as a running agent's do.
_CHANGED_FILE_MESSAGES = ("changed as we read it", "removed before we read it", "Exiting with failure status")
# Letters that some file systems do not see.
_IGNORED_CHARS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def receive_files(host: Host, source: str, names: list[str], target: str, most: TransferLimits | None = None) -> int:
    """Copy what an agent has under `source` into the directory `target`, without `.git`; how many files came.

    Raises NotFound for a name that is not there, TimedOut, Unreachable.
    """
    most = most or TransferLimits()
    count, damage = 0, None
    with tempfile.TemporaryFile() as complaints:
        argv = ["sh", "-c", scripts.read_program("pack.sh"), "pack.sh", source, *names]
        pack = host.stream(argv, stdout=shell.PIPE, stderr=complaints)
        assert pack.stdout is not None
        _enlarge_pipe(pack.stdout)
        try:
            with pack.stdout:
                for archive, member in _iter_members(pack.stdout, most):
                    count += _extract(archive, member, target)
                _read_to_end(pack.stdout)
        except tarfile.TarError as error:
            damage = error  # why, tar itself says below
        except BaseException:
            pack.kill()
            raise
        finally:
            shell.wait_process(pack)
        code, said = _parse_exit(host, complaints)
    if code == 4:
        raise NotFound(f"there is no {names[0]!r} in {source}")
    bad = [line for line in said if not any(words in line for words in _CHANGED_FILE_MESSAGES)]
    if damage and code == 0 and not host.is_local:
        raise Unreachable(f"{host.name}: the connection was lost: {damage}", "try again")
    if damage or (code and (bad or not said)):
        why = (bad or ["it is gone" if code == 3 else str(damage)])[0]
        raise MngrError(f"cannot copy from {source}: {why}", "try again")
    return count


def _read_to_end(stream: IO[bytes]) -> None:
    """Read what follows the end of an archive: who cannot write it may not come to say how it ended."""
    for _ in range(16):
        if not stream.read(1 << 16):
            return


def _parse_exit(host: Host, complaints: IO[bytes]) -> tuple[int, list[str]]:
    """How a program there ended, and what it said before; Unreachable when it did not come to its end."""
    complaints.seek(0)
    said, found, code = complaints.read().decode("utf-8", "replace").rpartition("\nmngr ended ")
    if found and names.is_number(code):
        return int(code), said.strip().splitlines()
    if host.is_local:
        raise MngrError("the copy was interrupted", "try again")
    why = (code.strip().splitlines() or ["the connection ended"])[-1]
    raise Unreachable(f"{host.name}: {why}", "try again")


def _iter_members(stream: IO[bytes], most: TransferLimits) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The entries of an archive, as long as they keep to the limits."""
    total = count = 0
    ration = LimitedReader(stream, most.seconds)
    try:
        with tarfile.TarFile(fileobj=ration) as archive:  # type: ignore[arg-type]
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # or it would remember them all
                total, count = total + member.size, count + 1
                if not 0 <= member.size <= most.file_bytes:
                    what = f"{member.name!r} has {format_size(member.size)}"
                    raise _make_limit_error(what, "max_file_bytes", most.file_bytes)
                if total > most.bytes:
                    raise _make_limit_error("there is more", "max_bytes", most.bytes)
                if count > most.files:
                    raise _make_limit_error("there is more", "max_files", most.files)
                ration.max_position += member.size + 16 * 1024
                yield archive, member
            if ration.last_read != bytes(512):  # an empty block is the end
                raise tarfile.ReadError("not all of it came")
            while ration.read(CHUNK_BYTES):  # tar fills its last record, and fails where nobody reads that
                pass
    except (ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise tarfile.ReadError(str(error)) from None


def _make_limit_error(what: str, setting: str, most: int) -> MngrError:
    limit = f"{most} files" if setting == "max_files" else format_size(most)
    return MngrError(
        f"refused: {what}, and at most {limit} may come from an agent",
        f"to take it, raise the limit: -S pull.{setting}=N",
    )


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> int:
    """One entry, written through no link; what could leave the target is refused. How many files it is."""
    name = os.path.normpath(member.name)
    parts = name.split("/")
    if name == "." or any(map(is_git_dir_name, parts)):
        return 0  # the directory itself; or what git here would obey
    if name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH:
        raise _make_refusal_error(member, "its path is absolute, leaves the directory or is too deep")
    try:
        _make_parent_dirs(target, parts[:-1])
        path = os.path.join(target, name)
        if member.isdir():
            _make_parent_dirs(target, parts)
            return 0
        if member.issym():
            if not is_link_inside(parts, member.linkname):
                raise _make_refusal_error(member, f"it links to {member.linkname!r}, outside the directory")
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(member.linkname, path)
        elif member.isreg() or member.islnk():
            _write_member(archive, member, target, path)
        else:
            raise _make_refusal_error(member, "it is a pipe or a device")
    except OSError as error:
        raise MngrError(f"cannot write {member.name!r} here: {error.strerror}", "check space and permissions") from None
    return 1


def is_git_dir_name(name: str) -> bool:
    """Whether some file system would take a name for `.git`."""
    seen = name if name.isascii() else name.translate(_IGNORED_CHARS)
    return seen.lower().rstrip(" .") in (".git", "git~1")


def _make_refusal_error(member: tarfile.TarInfo, why: str) -> MngrError:
    return MngrError(f"refused: {member.name!r} of the agent: {why}", "have it taken away: mngr exec NAME -- rm …")


def _make_parent_dirs(target: str, parts: list[str]) -> None:
    """The directories on the way; a link or file of an earlier time makes room for a directory."""
    os.makedirs(target, exist_ok=True)
    for end in range(1, len(parts) + 1):
        path = os.path.join(target, *parts[:end])
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        if not os.path.isdir(path):
            os.mkdir(path)


def is_link_inside(parts: list[str], link: str) -> bool:
    """Whether a link leads down, after at most as many steps up as the directory it is in is deep."""
    steps = link.split("/")
    ups = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    return not link.startswith("/") and ".." not in steps[ups:] and ups < len(parts)


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str, path: str) -> None:
    """Beside it first, so that what is there stays whole until all of the new has come."""
    data = archive.extractfile(member) if member.isreg() else _open_link_target(member, target)
    assert data is not None
    mode = 0o777 if member.mode & 0o100 else 0o666
    fresh = os.path.join(os.path.dirname(path), f".mngr-{os.urandom(6).hex()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with data, os.fdopen(fd, "wb") as file:
            shutil.copyfileobj(data, file, CHUNK_BYTES)
        os.replace(fresh, path)
    except BaseException:
        os.unlink(fresh)
        raise


def _open_link_target(member: tarfile.TarInfo, target: str) -> IO[bytes]:
    """The file that a hard link is a second name of; it came before."""
    first = os.path.join(target, os.path.normpath(member.linkname))
    if not os.path.realpath(first).startswith(os.path.realpath(target) + "/") or os.path.islink(first):
        raise _make_refusal_error(member, "it is a second name of a file outside")
    return open(first, "rb")


def resolve_inside(work_dir: str, path: str) -> str:
    """`path` relative to the work dir; MngrError when it leaves it."""
    full = os.path.normpath(os.path.join(work_dir, path))
    if full != work_dir and not full.startswith(work_dir.rstrip("/") + "/"):
        raise MngrError(f"{path!r} is outside the agent's work dir", "paths are relative to its work dir")
    return os.path.relpath(full, work_dir)


def pull_path(host: Host, record: AgentRecord, path: str, target: str, most: TransferLimits | None = None) -> str:
    """Copy a file or directory of the agent's here, as `cp -r` would; where it ended up."""
    full = os.path.normpath(os.path.join(record.work_dir, resolve_inside(record.work_dir, path)))
    base = os.path.basename(full)
    end = os.path.join(target, base) if os.path.isdir(target) or target.endswith("/") else target
    place = os.path.dirname(os.path.abspath(end))
    if not os.path.isdir(place):
        raise MngrError(f"there is no directory {place}", "make it first")
    with tempfile.TemporaryDirectory(prefix=".mngr-", dir=place) as fresh:
        try:
            receive_files(host, os.path.dirname(full), [base], fresh, most)
        except NotFound:
            looked = shell.quote(os.path.dirname(path) or ".")
            raise NotFound(
                f"{record.name} has no {path!r}", f"look with: mngr exec {record.name} -- ls {looked}"
            ) from None
        came = os.path.join(fresh, base)
        is_dir = os.path.isdir(came) and not os.path.islink(came)
        if os.path.isdir(end) and not os.path.islink(end):
            if not is_dir:
                raise MngrError(f"{end} is a directory", "name another target")
            _move_contents(came, end)
        elif is_dir and os.path.lexists(end):
            raise MngrError(f"{end} is not a directory", "name another target")
        else:
            os.replace(came, end)
    return end


def _move_contents(source: str, target: str) -> None:
    """Everything in one directory into another, through no link."""
    for name in os.listdir(source):
        path, end = os.path.join(source, name), os.path.join(target, name)
        if os.path.islink(end) or (os.path.isfile(end) and os.path.isdir(path)):
            os.unlink(end)
        if os.path.isdir(path) and not os.path.islink(path) and os.path.isdir(end):
            _move_contents(path, end)
        elif os.path.isdir(end):
            raise MngrError(f"{end} is a directory", "name another target")
        else:
            os.replace(path, end)


def push_path(host: Host, source: str, work_dir: str, path: str) -> str:
    """Copy a file or directory to the agent, as `cp -r` would; where it ended up."""
    if not os.path.lexists(source):
        raise NotFound(f"there is no {source!r} here", "check the path")
    source = os.path.abspath(source)
    base = os.path.basename(source)
    end = os.path.normpath(os.path.join(work_dir, resolve_inside(work_dir, path or ".")))
    last = f".mngr-{os.urandom(6).hex()}"
    how = "in" if path.endswith("/") or end == work_dir else "as"
    with tempfile.TemporaryFile() as complaints:
        argv = ["sh", "-c", scripts.read_program("unpack.sh"), "unpack.sh", work_dir, end, base, last, how]
        unpack = host.stream(argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=complaints)
        assert unpack.stdin is not None and unpack.stdout is not None
        _enlarge_pipe(unpack.stdin)
        try:
            _send_archive(unpack.stdin, source, base, last)
        except BrokenPipeError:
            pass  # why, is said below
        except OSError as error:
            raise MngrError(
                f"cannot read {error.filename or source}: {error.strerror or error}", "nothing was copied"
            ) from None
        finally:
            _close(unpack.stdin)
            with unpack.stdout:
                answer = unpack.stdout.read()
            shell.wait_process(unpack)
        code, said = _parse_exit(host, complaints)
    if code:
        why = said[0] if said else "it cannot be written"
        raise MngrError(f"cannot copy {source} to the agent: {why}", "check the path, space and permissions")
    return os.path.join(end, base) if answer == b"in\n" else end


def _send_archive(stream: IO[bytes], source: str, base: str, last: str) -> None:
    """An archive with an empty file as its last: where that has come, everything has."""

    def anybodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.TarFile(
        fileobj=_WriteOnlyStream(stream),  # type: ignore[arg-type]
        mode="w",
        format=tarfile.GNU_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
        copybufsize=CHUNK_BYTES,
    ) as archive:
        archive.add(source, arcname=base, filter=anybodys)
        archive.addfile(tarfile.TarInfo(last))


class _WriteOnlyStream:
    """A file that is only written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write

    def tell(self) -> int:
        return 0


def _enlarge_pipe(pipe: IO[bytes]) -> None:
    """Let more be under way at a time, where the system can: half as many changes between processes."""
    try:
        fcntl.fcntl(pipe.fileno(), getattr(fcntl, "F_SETPIPE_SZ", -1), 1 << 20)
    except OSError:
        pass


def _close(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except BrokenPipeError:
        pass
