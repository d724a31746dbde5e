"""Copies files between an agent's host and this machine as a tar stream. Files from an agent are checked first."""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from typing import IO

from mngr.agents.sync.transfer_limits import CHUNK_BYTES, LimitedReader, TransferLimits
from mngr.base import names_and_addresses, shell
from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.model import AgentRecord
from mngr.base.size_format import format_size
from mngr.host import scripts
from mngr.host.protocol import Host

MAX_DEPTH = 100
# Messages of tar about files that change or disappear during the read, as with a running agent.
_CHANGED_FILE_MESSAGES = ("changed as we read it", "removed before we read it", "Exiting with failure status")
# git takes a directory with these entries for a repository and obeys its settings, even if it is not called `.git`.
_GIT_DIR_ENTRIES = {"head": "HEAD", "objects": "objects", "refs": "refs", "commondir": "commondir"}
# Characters that some file systems ignore in names.
_IGNORED_CHARS = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))


def receive_files(
    host: Host, source: str, names: list[str], target: str, limits: TransferLimits | None = None, *, depth: int = 0
) -> int:
    """Copy an agent's files under `source` into the directory `target`, without `.git`, and return their number.

    A link must not lead out of `target`, or of the directories that are `depth` levels below it.
    Raise NotFound for a name that does not exist, TimedOut or Unreachable when the transfer fails.
    """
    limits = limits or TransferLimits()
    count, damage = 0, None
    with tempfile.TemporaryFile() as stderr:
        argv = ["sh", "-c", scripts.read_program("pack_files.sh"), "pack_files.sh", source, *names]
        sender = host.stream(argv, stdout=shell.PIPE, stderr=stderr)
        assert sender.stdout is not None
        _enlarge_pipe(sender.stdout)
        try:
            with sender.stdout:
                for archive, member in _iter_members(sender.stdout, limits):
                    count += _extract(archive, member, target, depth)
                _read_to_end(sender.stdout)
        except tarfile.TarError as error:
            damage = error  # tar's own message on stderr is more precise, see below.
        except BaseException:
            sender.kill()
            raise
        finally:
            shell.wait_process(sender)
        code, lines = _parse_exit(host, stderr)
    if code == 4:
        raise NotFound(f"there is no file {names[0]!r} in {source}")
    problems = [line for line in lines if not any(words in line for words in _CHANGED_FILE_MESSAGES)]
    if damage and code == 0 and not host.is_local:
        raise Unreachable(f"the connection to {host.name} was lost during the copy: {damage}", "run the command again")
    if damage or (code and (problems or not lines)):
        reason = (problems or ["the directory no longer exists" if code == 3 else str(damage)])[0]
        raise MngrError(f"cannot copy from {source}: {reason}", "run the command again")
    return count


def _read_to_end(stream: IO[bytes]) -> None:
    """Read what follows the end of the archive, so that the sender can finish and report its exit code."""
    for _ in range(16):
        if not stream.read(1 << 16):
            return


def _parse_exit(host: Host, stderr: IO[bytes]) -> tuple[int, list[str]]:
    """Return the exit code and stderr lines of a program on the host. Raise Unreachable if it did not finish."""
    stderr.seek(0)
    text, separator, code = stderr.read().decode("utf-8", "replace").rpartition("\nmngr ended ")
    if separator and names_and_addresses.is_number(code):
        return int(code), text.strip().splitlines()
    if host.is_local:
        raise MngrError("the copy was interrupted", "run the command again")
    reason = (code.strip().splitlines() or ["the connection ended"])[-1]
    raise Unreachable(f"the copy from or to {host.name} failed: {reason}", "run the command again")


def _iter_members(stream: IO[bytes], limits: TransferLimits) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the entries of an archive. Raise MngrError when they exceed the limits."""
    total = count = 0
    reader = LimitedReader(stream, limits.seconds)
    try:
        with tarfile.TarFile(fileobj=reader) as archive:  # type: ignore[arg-type]
            while (member := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]  # The archive would keep all entries in memory.
                total, count = total + member.size, count + 1
                if not 0 <= member.size <= limits.file_bytes:
                    problem = f"{member.name!r} has a size of {format_size(member.size)}"
                    raise _make_limit_error(problem, "max_file_bytes", limits.file_bytes)
                if total > limits.bytes:
                    raise _make_limit_error("the files together are too large", "max_bytes", limits.bytes)
                if count > limits.files:
                    raise _make_limit_error("there are too many files", "max_files", limits.files)
                reader.max_position += member.size + 16 * 1024
                yield archive, member
            if reader.last_read != bytes(512):  # An empty block marks the end of the archive.
                raise tarfile.ReadError("the transfer was incomplete")
            while reader.read(CHUNK_BYTES):  # tar pads its last record, and fails if the padding is not read.
                pass
    except (ValueError, LookupError, ArithmeticError, RecursionError) as error:
        raise tarfile.ReadError(str(error)) from None


def _make_limit_error(problem: str, setting: str, maximum: int) -> MngrError:
    """Return the error for a transfer that exceeds the limit of this setting."""
    limit = f"{maximum} files" if setting == "max_files" else format_size(maximum)
    return MngrError(
        f"mngr refused the copy: {problem}, and the limit is {limit}",
        f"to copy it anyway, raise the limit: mngr config set --user pull.{setting} N",
    )


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str, depth: int = 0) -> int:
    """Write one entry without following links, and return how many files it adds. Refuse a path outside the target.

    Also refuse a link that leads out of its directory `depth` levels below the target.
    """
    name = os.path.normpath(member.name)
    parts = name.split("/")
    if name == "." or any(map(is_git_dir_name, parts)):
        return 0  # This is the directory itself, or a file that git on this machine would obey.
    if name.startswith("/") or ".." in parts or len(parts) > MAX_DEPTH:
        raise _make_refusal_error(member, "its path is absolute, leaves the directory or is too deep")
    refuse_git_dir(target, parts)
    try:
        _make_parent_dirs(target, parts[:-1])
        path = os.path.join(target, name)
        if member.isdir():
            _make_parent_dirs(target, parts)
            return 0
        if member.issym():
            if not is_link_inside(parts[depth:], member.linkname):
                raise _make_refusal_error(member, f"it is a link to {member.linkname!r}, outside the directory")
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(member.linkname, path)
        elif member.isreg() or member.islnk():
            _write_member(archive, member, target, path)
        else:
            raise _make_refusal_error(member, "it is a pipe or a device")
    except OSError as error:
        raise MngrError(f"cannot write {member.name!r}: {error.strerror}", shell.suggest_disk_check(target)) from None
    return 1


def is_git_dir_name(name: str) -> bool:
    """True when some file system would treat the name as `.git`."""
    return _fold_name(name) in (".git", "git~1")


def _fold_name(name: str) -> str:
    """Return the name that some file system gives to a file which is called `name`."""
    visible = name if name.isascii() else name.translate(_IGNORED_CHARS)
    return visible.lower().rstrip(" .")


def refuse_git_dir(target: str, parts: list[str]) -> None:
    """Raise MngrError if a file from an agent would make a repository of a directory at or below `target`."""
    for depth, part in enumerate(parts):
        entry = _fold_name(part)
        if entry not in _GIT_DIR_ENTRIES:
            continue
        directory = os.path.join(target, *parts[:depth])
        entries = {key for key, name in _GIT_DIR_ENTRIES.items() if os.path.lexists(os.path.join(directory, name))}
        entries.add(entry)
        if entries >= {"head", "objects", "refs"} or entries >= {"head", "commondir"}:
            place = "/".join(parts[:depth]) or "."
            raise MngrError(
                f"mngr refused the copy: the agent's directory {place!r} is a git repository, whose settings git would obey here",
                f"pack the directory, then pull the archive: mngr exec NAME -- tar -cf repository.tar {shell.quote(place)} && "
                "mngr pull NAME:repository.tar",
            )


def _make_refusal_error(member: tarfile.TarInfo, reason: str) -> MngrError:
    """Return the error for an entry that mngr refuses to write."""
    return MngrError(
        f"mngr refused the copy: the agent's file {member.name!r} is not safe to copy: {reason}",
        f"delete it: mngr exec NAME -- rm {shell.quote(member.name)}",
    )


def _make_parent_dirs(target: str, parts: list[str]) -> None:
    """Create these directories below `target`, replacing links and files that have their names."""
    os.makedirs(target, exist_ok=True)
    for end in range(1, len(parts) + 1):
        path = os.path.join(target, *parts[:end])
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        if not os.path.isdir(path):
            os.mkdir(path)


def is_link_inside(parts: list[str], link: str) -> bool:
    """True when a link cannot lead outside: all its `..` come first, and are fewer than the parts of its path."""
    steps = link.split("/")
    leading_ups = next((index for index, step in enumerate(steps) if step != ".."), len(steps))
    return not link.startswith("/") and ".." not in steps[leading_ups:] and leading_ups < len(parts)


def _write_member(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str, path: str) -> None:
    """Write a file under a temporary name and rename it, so that an existing file stays complete until then."""
    data = archive.extractfile(member) if member.isreg() else _open_link_target(member, target)
    assert data is not None
    mode = 0o777 if member.mode & 0o100 else 0o666
    temporary = os.path.join(os.path.dirname(path), f".mngr-{os.urandom(6).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with data, os.fdopen(fd, "wb") as file:
            shutil.copyfileobj(data, file, CHUNK_BYTES)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _open_link_target(member: tarfile.TarInfo, target: str) -> IO[bytes]:
    """Open the file that a hard link refers to. It is earlier in the archive, so it exists already."""
    original = os.path.join(target, os.path.normpath(member.linkname))
    if not os.path.realpath(original).startswith(os.path.realpath(target) + "/") or os.path.islink(original):
        raise _make_refusal_error(member, "it is a hard link to a file outside the directory")
    return open(original, "rb")


def resolve_inside(work_dir: str, path: str) -> str:
    """Return `path` relative to the work dir. Raise MngrError if it is outside."""
    full_path = os.path.normpath(os.path.join(work_dir, path))
    if full_path != work_dir and not full_path.startswith(work_dir.rstrip("/") + "/"):
        raise MngrError(
            f"{path!r} is outside the agent's work dir",
            "give a path relative to the work dir, for example: mngr pull NAME:out/report.json",
        )
    return os.path.relpath(full_path, work_dir)


def pull_path(host: Host, record: AgentRecord, path: str, target: str, limits: TransferLimits | None = None) -> str:
    """Copy a file or directory from the agent to this machine, as `cp -r` would, and return its new path."""
    full_path = os.path.normpath(os.path.join(record.work_dir, resolve_inside(record.work_dir, path)))
    base = os.path.basename(full_path)
    final_path = os.path.join(target, base) if os.path.isdir(target) or target.endswith("/") else target
    parent_dir = os.path.dirname(os.path.abspath(final_path))
    if not os.path.isdir(parent_dir):
        raise MngrError(f"there is no directory {parent_dir}", f"create it first: mkdir -p {shell.quote(parent_dir)}")
    refuse_git_dir(parent_dir, [os.path.basename(os.path.abspath(final_path))])
    with tempfile.TemporaryDirectory(prefix=".mngr-", dir=parent_dir) as temporary_dir:
        try:
            receive_files(host, os.path.dirname(full_path), [base], temporary_dir, limits, depth=1)
        except NotFound:
            directory = shell.quote(os.path.dirname(path) or ".")
            raise NotFound(
                f"{record.name} has no file {path!r}", f"list its files: mngr exec {record.name} -- ls {directory}"
            ) from None
        received = os.path.join(temporary_dir, base)
        is_dir = os.path.isdir(received) and not os.path.islink(received)
        if os.path.isdir(final_path) and not os.path.islink(final_path):
            if not is_dir:
                raise MngrError(
                    f"{final_path} is a directory, so the file cannot replace it",
                    "choose another target: mngr pull AGENT:PATH DEST",
                )
            _move_contents(received, final_path)
        elif is_dir and os.path.lexists(final_path):
            raise MngrError(
                f"{final_path} is not a directory, so the directory cannot replace it",
                "choose another target: mngr pull AGENT:PATH DEST",
            )
        else:
            os.replace(received, final_path)
    return final_path


def _move_contents(source: str, target: str) -> None:
    """Move everything from one directory into another, without following links."""
    for name in os.listdir(source):
        path, final_path = os.path.join(source, name), os.path.join(target, name)
        refuse_git_dir(target, [name])
        if os.path.islink(final_path) or (os.path.isfile(final_path) and os.path.isdir(path)):
            os.unlink(final_path)
        if os.path.isdir(path) and not os.path.islink(path) and os.path.isdir(final_path):
            _move_contents(path, final_path)
        elif os.path.isdir(final_path):
            raise MngrError(
                f"{final_path} is a directory, so the file cannot replace it",
                "choose another target: mngr pull AGENT:PATH DEST",
            )
        else:
            os.replace(path, final_path)


def push_path(host: Host, source: str, work_dir: str, path: str) -> str:
    """Copy a local file or directory to the agent, as `cp -r` would, and return its path there."""
    if not os.path.lexists(source):
        raise NotFound(f"there is no file {source!r}", "list the files: ls")
    source = os.path.abspath(source)
    base = os.path.basename(source)
    final_path = os.path.normpath(os.path.join(work_dir, resolve_inside(work_dir, path or ".")))
    end_marker = f".mngr-{os.urandom(6).hex()}"
    mode = "in" if path.endswith("/") or final_path == work_dir else "as"
    with tempfile.TemporaryFile() as stderr:
        argv = [
            "sh",
            "-c",
            scripts.read_program("unpack_files.sh"),
            "unpack_files.sh",
            work_dir,
            final_path,
            base,
            end_marker,
            mode,
        ]
        receiver = host.stream(argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=stderr)
        assert receiver.stdin is not None and receiver.stdout is not None
        _enlarge_pipe(receiver.stdin)
        try:
            _send_archive(receiver.stdin, source, base, end_marker)
        except BrokenPipeError:
            pass  # The program's exit code and stderr tell the reason, see below.
        except OSError as error:
            raise MngrError(
                f"cannot read {error.filename or source}: {error.strerror or error}; nothing was copied",
                f"check the permissions: ls -la {shell.quote(source)}",
            ) from None
        finally:
            _close(receiver.stdin)
            with receiver.stdout:
                stdout = receiver.stdout.read()
            shell.wait_process(receiver)
        code, lines = _parse_exit(host, stderr)
    if code:
        reason = lines[0] if lines else "the agent's host cannot write it"
        raise MngrError(
            f"cannot copy {source} to the agent: {reason}",
            shell.suggest_disk_check(work_dir, None if host.is_local else host.name),
        )
    return os.path.join(final_path, base) if stdout == b"in\n" else final_path


def _send_archive(stream: IO[bytes], source: str, base: str, end_marker: str) -> None:
    """Send an archive that ends with an empty marker file. If the marker has arrived, everything has."""

    def clear_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
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
        archive.add(source, arcname=base, filter=clear_owner)
        archive.addfile(tarfile.TarInfo(end_marker))


class _WriteOnlyStream:
    """The part of a file object that tarfile needs for writing."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.write = stream.write

    def tell(self) -> int:
        return 0


def _enlarge_pipe(pipe: IO[bytes]) -> None:
    """Enlarge the pipe's buffer if the system allows it, which halves the switches between processes."""
    try:
        fcntl.fcntl(pipe.fileno(), getattr(fcntl, "F_SETPIPE_SZ", -1), 1 << 20)
    except OSError:
        pass


def _close(stream: IO[bytes]) -> None:
    """Close the stream, even if its reader is gone."""
    try:
        stream.close()
    except BrokenPipeError:
        pass
