"""Finds packs of an agent's repository that the user's repository has completely, so that mngr need not send them."""

from __future__ import annotations

import os
import re

from mngr.agents.saved import host_stream, tar
from mngr.base import shell
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host

ALTERNATES_FILE = os.path.join("objects", "info", "alternates")  # in a git dir: lists other object directories
LARGE_PACK_BYTES = 1 << 20  # Sending a smaller pack is faster than asking about it.
_PACK_NAME = re.compile(r"pack-[0-9a-f]{40,64}")
# Exits with 0 when an object in the pack's index is missing in the local repository.
_FIND_MISSING_OBJECT = """
git show-index --object-format="$1" <"$3" | cut -d' ' -f2 |
    GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none git -C "$2" --no-replace-objects cat-file --batch-check='%(objectname)' --buffer | grep -q ' missing$'
"""


def parse_large_packs(rows: list[str]) -> list[str]:
    """Return the names of the large packs among rows `SIZE NAME.pack` from a host."""
    names = []
    for row in rows:
        size, _, file_name = row.partition(" ")
        name = file_name.removesuffix(".pack")
        is_size = size.isascii() and size.isdigit()
        is_large = is_size and int(size[:18]) >= LARGE_PACK_BYTES
        if is_large and _PACK_NAME.fullmatch(name):
            names.append(name)
    return names[:100]


def list_local_packs(
    local: Host, repo: Repo, host: Host, work_dir: str, names: list[str], scratch_dir: str
) -> list[str]:
    """Return the packs whose objects the local repository all has. Their indexes are unpacked in `scratch_dir`."""
    folder = os.path.join(work_dir, ".git", "objects", "pack")
    path = os.path.join(scratch_dir, "indexes.tar")
    argv = ["tar", "-C", folder, "-cf", "-", *(f"{name}.idx" for name in names)]
    if host_stream.receive_to_file(host, argv, path, max_bytes=tar.MAX_ARCHIVE_BYTES).code:
        return []
    tar.check_archive(path, only=tuple(f"{name}.idx" for name in names))
    tar.unpack(local, path, scratch_dir, "--no-same-owner")
    os.unlink(path)
    object_format = git.get_object_format(local, repo)
    shared = []
    for name in names:
        index = os.path.join(scratch_dir, f"{name}.idx")
        is_regular_file = os.path.isfile(index) and not os.path.islink(index)
        if is_regular_file and _has_all_objects(local, repo, object_format, index):
            shared.append(name)
    return shared


def _has_all_objects(local: Host, repo: Repo, object_format: str, index: str) -> bool:
    """True when the local repository has all objects that the pack's index names."""
    result = local.run(["sh", "-c", _FIND_MISSING_OBJECT, "missing", object_format, repo.common_dir, index])
    return result.code == 1 and not result.err


def add_alternate(local: Host, repo: Repo, git_dir: str) -> None:
    """Let a copied repository use the objects of the local one."""
    path = os.path.join(git_dir, ALTERNATES_FILE)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise MngrError(
            f"cannot write {path}: {error.strerror}", shell.suggest_disk_check(os.path.dirname(path))
        ) from None
    text = os.path.join(repo.common_dir, "objects") + "\n"
    local.write(path, text.encode("utf-8", "surrogateescape"))


def has_large_packs(local: Host, repo: Repo) -> bool:
    """True when the repository is large enough to make sharing its packs worthwhile."""
    rows = git.run(local, repo.root, "count-objects", "-v", git_command=git.SAFE_GIT).text.split("\n")
    return any(row.startswith("size-pack: ") and int(row[11:]) * 1024 >= LARGE_PACK_BYTES for row in rows)
