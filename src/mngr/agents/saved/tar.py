"""Files as tar archives: exactly as they are when packed, checked before they are unpacked."""

from __future__ import annotations

import os
import tarfile

from mngr.base.errors import MngrError
from mngr.base.shell import ProcessResult
from mngr.host.protocol import Host

# The archive goes through a redirection: tar takes a colon in a file's name for another machine.
_PACK_FILES = 'LC_ALL=C exec tar -C "$1" --no-recursion --null -T - --format=posix -cf - >"$2"'
_UNPACK_FILES = 'a=$1 t=$2; shift 2; LC_ALL=C exec tar -C "$t" -xpf - "$@" <"$a"'
_LIST_TREE = 'cd "$1" && LC_ALL=C exec xargs -0 sh -c \'exec find "$@" -print0\' find'
# What tar and find say of files that change or go while they are read, as a running agent's do.
_CHANGED_FILE_MESSAGES = (
    "changed as we read it",
    "removed before we read it",
    "No such file or directory",
    "Exiting with failure status",
    "find: failed",
)
MAX_ENTRIES = 1_000_000  # entries of an archive that comes from another host
MAX_ARCHIVE_BYTES = 10 * 1024**3
MAX_DEPTH = 200


def check_read_result(result: ProcessResult, base: str) -> None:
    """MngrError when something that is there could not be read; what is gone meanwhile is gone."""
    said = result.err.decode("utf-8", "replace").strip().splitlines()
    wrong = [line for line in said if not any(words in line for words in _CHANGED_FILE_MESSAGES)]
    if result.code and (wrong or not said):
        raise MngrError(
            f"cannot save all of {base}: {wrong[0] if wrong else 'tar or find failed'}",
            "check space and permissions",
        )


def pack(host: Host, base: str, names: list[str], target: str) -> None:
    """Exactly these paths under `base`, directories without what is in them."""
    listed = "\0".join(f"./{name}" if name != "." else "." for name in names)
    argv = ["sh", "-c", _PACK_FILES, "pack", base, target]
    check_read_result(host.run(argv, stdin=listed.encode("utf-8", "surrogateescape")), base)


def list_tree(host: Host, base: str, names: list[str]) -> list[str]:
    """These paths and everything below them."""
    if not names:
        return []
    listed = "\0".join(f"./{name}" for name in names).encode("utf-8", "surrogateescape")
    result = host.run(["sh", "-c", _LIST_TREE, "tree", base], stdin=listed)
    check_read_result(result, base)
    return [name.removeprefix("./") for name in result.out.decode("utf-8", "surrogateescape").split("\0") if name]


def check_archive(path: str, *, refuse: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> dict[str, str]:
    """What an archive holds, by name: file, dir or link. MngrError if it could write outside, or to `refuse` at its top.

    With `only` it comes from another host: it holds nothing but these and what is in them, each once, within limits.
    """
    found: dict[str, str] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = os.path.normpath(member.name)
                if name.startswith(("/", "../")) or name == ".." or name.split("/")[0] in refuse:
                    raise _make_unsafe_entry_error(path, member.name)
                if (
                    member.ischr()
                    or member.isblk()
                    or (member.islnk() and found.get(os.path.normpath(member.linkname)) != "file")
                ):
                    raise _make_unsafe_entry_error(path, member.name)
                if name in found and (found[name] != "dir" if member.isdir() else only):
                    raise _make_unsafe_entry_error(
                        path, member.name
                    )  # what tar makes of a name that comes twice is not to be relied on
                if only and (not _is_inside(name, only) or member.issparse()):
                    raise _make_unsafe_entry_error(path, member.name)
                if only and (len(found) >= MAX_ENTRIES or name.count("/") > MAX_DEPTH):
                    raise MngrError(
                        f"more than {MAX_ENTRIES} files, or directories {MAX_DEPTH} deep, are to be fetched",
                        "take away there what is not needed",
                    )
                above = os.path.dirname(name)
                while above:
                    if found.get(above, "dir") != "dir":
                        raise _make_unsafe_entry_error(path, member.name)
                    above = os.path.dirname(above)
                found[name] = "dir" if member.isdir() else "link" if member.issym() else "file"
    except (tarfile.TarError, OSError) as error:
        raise MngrError(
            f"{path} cannot be read: {error}",
            "the archive is damaged; what is whole in it can be taken out with tar",
        ) from None
    return found


def _is_inside(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(place + "/") for place in places)


def _make_unsafe_entry_error(path: str, name: str) -> MngrError:
    return MngrError(
        f"{path} holds {name!r}, which could write outside its directory",
        "look at the archive with: tar -tvf",
    )


def unpack(host: Host, path: str, target: str, *words: str) -> None:
    """Take out what `check` has seen; `words` are tar's."""
    result = host.run(["sh", "-c", _UNPACK_FILES, "unpack", path, target, *words])
    if result.code:
        raise MngrError(f"cannot unpack {path}: {result.error_line}", "check space and permissions")
