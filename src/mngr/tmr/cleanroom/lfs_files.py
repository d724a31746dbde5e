"""Replaces pointer files of git-lfs by the content that the user's repository has, without running git-lfs.

A pointer file names its content by a hash. git-lfs would run as a filter of git with the user's rights, on files whose
author may be hostile. `clean_room_program.py` imports this module in the clean room, so it uses only the standard library
of Python 3.9.
"""

from __future__ import annotations

import os
import re
import shutil
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Lists the files that git-lfs stores.
_LIST_WORDS = ("ls-files", "-z", "--", ":(attr:filter=lfs)")
_POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize \d+\n"
)
_MAX_POINTER_BYTES = 1024
_MAX_TOTAL_BYTES = 10 << 30  # A branch can name the same content many times.


def find_store(common_dir: str) -> str:
    """Return the directory in which a repository keeps the contents of its git-lfs files, or "" if it has none."""
    store = os.path.join(common_dir, "lfs", "objects")
    return store if os.path.isdir(store) else ""


def fill_workspace(store: str, run_git: Callable[..., str]) -> None:
    """Fill the pointer files of the current directory, if the store is on this machine."""
    if os.path.isdir(store):
        fill_pointer_files(os.getcwd(), store, run_git(*_LIST_WORDS))


def fill_pointer_files(work_dir: str, store: str, listed: str) -> None:
    """Give each pointer file the content that it names, if the store has it. `listed` has their names.

    No other process may change the work dir at the same time.
    """
    root, total = os.path.realpath(work_dir), 0
    for name in listed.split("\0"):
        path = os.path.join(root, name)
        oid = _read_pointer(path) if name and os.path.realpath(path) == os.path.normpath(path) else ""
        content = os.path.join(store, oid[:2], oid[2:4], oid)
        if not oid or not os.path.isfile(content):
            continue
        total += os.path.getsize(content)
        if total <= _MAX_TOTAL_BYTES:
            mode = stat.S_IMODE(os.stat(path).st_mode)
            os.unlink(path)
            shutil.copyfile(content, path)
            os.chmod(path, mode)


def _read_pointer(path: str) -> str:
    """Return the hash in a pointer file, or "" if the file is no pointer."""
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_POINTER_BYTES:
            return ""
        with open(path, "rb") as file:
            match = _POINTER.fullmatch(file.read())
    except OSError:
        return ""
    return match.group(1).decode() if match else ""
