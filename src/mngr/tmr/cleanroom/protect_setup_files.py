"""Keeps what a test does to the files of set-up from the next command of the same clean room.

Set-up creates files outside of Python environments, such as `node_modules`, and tests may write there. Before each
command, new files are deleted. If a test changed or deleted a file, the clean room is used up. A test cannot hide a
change: the kernel sets the time of a file's last change. `clean_room_program.py` imports this module in the clean room,
so it uses only the standard library of Python 3.9.
"""

from __future__ import annotations

import marshal
import os
import shutil
import stat
from collections.abc import Iterator

_STATE_FILE = os.path.join(os.path.dirname(__file__), "setup-files")  # beside mngr's programs: tests cannot write there


def restore_setup_files(names: list[str], commit: str, kept_patterns: list[str]) -> str:
    """Delete new files. Return the path of a file that is not as it was before the first command, or "".

    The first call for a commit records the files. `names` are the paths that set-up created.
    """
    names = [name for name in names if not _leads_through_link(name)]
    if "__pycache__" not in kept_patterns:
        _remove_bytecode(names)
    try:
        current = dict(_iter_files(names))
    except PermissionError as error:
        return str(error.filename)  # A test removed permissions.
    recorded_commit, recorded = _read_state()
    if recorded_commit != commit:
        with open(_STATE_FILE, "wb") as file:
            marshal.dump((commit, current), file)
        return ""
    for path in sorted(current.keys() - recorded.keys()):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
    return next((path for path, identity in recorded.items() if current.get(path) != identity), "")


def _leads_through_link(name: str) -> bool:
    """True if the commit has a link in place of a directory that contains the path. The link can lead anywhere."""
    parts = name.rstrip("/").split("/")
    return any(os.path.islink("/".join(parts[:end])) for end in range(1, len(parts)))


def _read_state() -> tuple[str, dict[str, tuple[int, int]]]:
    """Return the commit for which the files were recorded, and their identities."""
    try:
        with open(_STATE_FILE, "rb") as file:
            commit, files = marshal.load(file)
    except FileNotFoundError:
        return "", {}
    return commit, files


def _remove_bytecode(names: list[str]) -> None:
    """Delete compiled code, which Python would run in place of the files that it comes from."""
    for name in names:
        for top, folders, _ in os.walk(name) if not os.path.islink(name.rstrip("/")) else ():
            if "__pycache__" in folders:
                folders.remove("__pycache__")
                shutil.rmtree(os.path.join(top, "__pycache__"), ignore_errors=True)


def _iter_files(names: list[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield everything at and below the paths. A file has its number and the time of its last change."""
    directories = []
    for path in [name.rstrip("/") for name in names]:
        if not os.path.lexists(path):
            continue
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            directories.append(path)
        yield path, _identify(status)
    while directories:
        with os.scandir(directories.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(entry.path)
                yield entry.path, _identify(entry.stat(follow_symlinks=False))


def _identify(status: os.stat_result) -> tuple[int, int]:
    """Return the number of a file and the time of its last change, or the number and the permissions of a directory."""
    return status.st_ino, status.st_mode if stat.S_ISDIR(status.st_mode) else status.st_ctime_ns
