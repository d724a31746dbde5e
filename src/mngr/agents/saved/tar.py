"""Packs files into tar archives exactly as they are, and checks archives before unpacking them."""

from __future__ import annotations

import os

from mngr.agents.saved import host_stream
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.base.shell import ProcessResult
from mngr.host.protocol import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    import tarfile

# The shell opens the archive, because tar reads a colon in an archive's name as the name of a remote machine.
_UNPACK_FILES = 'a=$1 t=$2; shift 2; LC_ALL=C exec tar -C "$t" -xpf - "$@" <"$a"'
_LIST_TREE = 'cd "$1" && LC_ALL=C exec xargs -0 sh -c \'exec find "$@" -print0\' find'
# Messages of tar and find about files that change or disappear during the read, as with a running agent.
_CHANGED_FILE_MESSAGES = (
    "changed as we read it",
    "removed before we read it",
    "No such file or directory",
    "Exiting with failure status",
    "find: failed",
)
MAX_ENTRIES = 1_000_000  # in an archive from a remote host
MAX_ARCHIVE_BYTES = 10 * 1024**3
MAX_DEPTH = 200


def check_read_result(result: ProcessResult, base: str) -> None:
    """Raise MngrError if an existing file could not be read. Files that disappeared meanwhile are no error."""
    lines = result.err.decode("utf-8", "replace").strip().splitlines()
    problems = [line for line in lines if not any(words in line for words in _CHANGED_FILE_MESSAGES)]
    if result.code and (problems or not lines):
        problem = problems[0] if problems else "tar or find failed"
        raise MngrError(
            f"cannot save all files of {base}: {problem}",
            "allow your user to read this file, then run the command again: chmod u+r FILE",
        )


def pack(host: Host, base: str, names: list[str], target: str) -> None:
    """Write exactly these paths under `base` to a new archive. Directories are added without their contents."""
    listed = "\0".join(f"./{name}" if name != "." else "." for name in names).encode("utf-8", "surrogateescape")
    argv = ["tar", "-C", base, "--no-recursion", "--null", "-T", "-", "--format=posix", "-cf", "-"]
    check_read_result(host_stream.receive_to_file(host, argv, target, stdin=listed), base)


def list_tree(host: Host, base: str, names: list[str]) -> list[str]:
    """Return these paths and everything below them."""
    if not names:
        return []
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    result = host.run(["sh", "-c", _LIST_TREE, "tree", base], stdin=listed)
    check_read_result(result, base)
    return [name.removeprefix("./") for name in result.out.decode("utf-8", "surrogateescape").split("\0") if name]


def check_archive(path: str, *, refuse: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the kind of each entry of an archive by its name: file, dir or link.

    Raise MngrError if an entry could write outside the target, or has a name in `refuse` at the top.
    With `only`, the archive comes from a remote host: it may hold only these paths and their contents, each once, and
    within the limits of size and depth.
    """
    import tarfile  # Most agents need no archive, and this import takes as long as a git command.

    kinds: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = os.path.normpath(member.name)
                is_refused = name.split("/")[0] in refuse
                if is_refused or not _is_safe_entry(member, kinds, is_remote=bool(only)):
                    raise _make_unsafe_entry_error(path, member.name)
                if only and not _is_inside(name, only):
                    raise _make_unsafe_entry_error(path, member.name)
                if only and (len(kinds) >= MAX_ENTRIES or name.count("/") > MAX_DEPTH):
                    raise MngrError(
                        f"the agent has more than {MAX_ENTRIES} files, or directories nested more than {MAX_DEPTH} levels deep",
                        "delete files of the agent that you do not need: mngr exec NAME -- rm -r PATH",
                    )
                if not _has_only_directories_above(name, kinds):
                    raise _make_unsafe_entry_error(path, member.name)
                kinds[name] = _get_entry_kind(member)
    except (tarfile.TarError, OSError) as error:
        raise MngrError(
            f"the archive {path} is damaged: {error}",
            f"extract the files that are intact: tar -xf {path}",
        ) from None
    return kinds


def _is_safe_entry(member: tarfile.TarInfo, kinds: dict[str, str], *, is_remote: bool) -> bool:
    """True when tar can write this entry only inside the target. `kinds` has the entries before it."""
    name = os.path.normpath(member.name)
    if name == ".." or name.startswith(("/", "../")):
        return False
    if member.ischr() or member.isblk():
        return False
    if member.islnk() and kinds.get(os.path.normpath(member.linkname)) != "file":
        return False
    if is_remote and member.issparse():
        return False
    if name not in kinds:
        return True
    # tar programs differ in what they do with a name that occurs twice.
    if member.isdir():
        return kinds[name] == "dir"
    return not is_remote


def _has_only_directories_above(name: str, kinds: dict[str, str]) -> bool:
    """True when no parent of this path is a file or a link in the archive."""
    parent = os.path.dirname(name)
    while parent:
        if kinds.get(parent, "dir") != "dir":
            return False
        parent = os.path.dirname(parent)
    return True


def _get_entry_kind(member: tarfile.TarInfo) -> str:
    if member.isdir():
        return "dir"
    return "link" if member.issym() else "file"


def _is_inside(name: str, directories: tuple[str, ...]) -> bool:
    """True when the path is one of these directories or inside one."""
    return any(name == directory or name.startswith(directory + "/") for directory in directories)


def _make_unsafe_entry_error(path: str, name: str) -> MngrError:
    """Return the error for an entry that mngr refuses to unpack."""
    return MngrError(
        f"the archive {path} contains {name!r}, which could write outside its directory, so mngr does not unpack it",
        f"list its files: tar -tvf {path}",
    )


def unpack(host: Host, path: str, target: str, *words: str) -> None:
    """Unpack an archive that `check_archive` has accepted. `words` are further arguments for tar."""
    result = host.run(["sh", "-c", _UNPACK_FILES, "unpack", path, target, *words])
    if result.code:
        raise MngrError(f"cannot unpack {path}: {result.error_line}", shell.suggest_disk_check(target))
