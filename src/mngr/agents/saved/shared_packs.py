"""Packs of an agent's repository whose every object the user's repository has: they need not travel."""

from __future__ import annotations

import os
import re

from mngr.agents.saved import host_stream, tar
from mngr.base.errors import MngrError
from mngr.host import git
from mngr.host.git import Repo
from mngr.host.protocol import Host

ALTERNATES_FILE = os.path.join("objects", "info", "alternates")  # of a git directory: where else its objects are
LARGE_PACK_BYTES = 1 << 20  # bytes: a smaller pack is sent sooner than asked about
_PACK_NAME = re.compile(r"pack-[0-9a-f]{40,64}")
# Whether an object that a pack's index names is missing here.
_FIND_MISSING_OBJECT = """
git show-index --object-format="$1" <"$3" | cut -d' ' -f2 |
    git -C "$2" --no-replace-objects cat-file --batch-check='%(objectname)' --buffer | grep -q ' missing$'
"""


def parse_large_packs(rows: list[str]) -> list[str]:
    """Names of large packs, of rows `SIZE NAME.pack` that a host has sent."""
    found = []
    for row in rows:
        size, _, name = row.partition(" ")
        name = name.removesuffix(".pack")
        if size.isascii() and size.isdigit() and int(size[:18]) >= LARGE_PACK_BYTES and _PACK_NAME.fullmatch(name):
            found.append(name)
    return found[:100]


def list_local_packs(local: Host, repo: Repo, host: Host, work: str, names: list[str], place: str) -> list[str]:
    """Those of these packs that hold nothing but what the repository here has too; `place` is for their indexes."""
    folder = os.path.join(work, ".git", "objects", "pack")
    path = os.path.join(place, "indexes.tar")
    argv = ["tar", "-C", folder, "-cf", "-", *(f"{name}.idx" for name in names)]
    if host_stream.receive_to_file(host, argv, path).code:
        return []
    tar.check_archive(path, only=tuple(f"{name}.idx" for name in names))
    tar.unpack(local, path, place, "--no-same-owner")
    os.unlink(path)
    form = git.run_checked(local, repo.root, "rev-parse", "--show-object-format")
    found = []
    for name in names:
        index = os.path.join(place, f"{name}.idx")
        if os.path.isfile(index) and not os.path.islink(index) and _has_all_objects(local, repo, form, index):
            found.append(name)
    return found


def _has_all_objects(local: Host, repo: Repo, form: str, index: str) -> bool:
    asked = local.run(["sh", "-c", _FIND_MISSING_OBJECT, "missing", form, repo.common_dir, index])
    return asked.code == 1 and not asked.err


def add_alternate(local: Host, repo: Repo, git_dir: str) -> None:
    """Let a copy that came without them use the objects of the repository here."""
    path = os.path.join(git_dir, ALTERNATES_FILE)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise MngrError(f"cannot write {path}: {error.strerror}", "check space and permissions") from None
    text = os.path.join(repo.common_dir, "objects") + "\n"
    local.write(path, text.encode("utf-8", "surrogateescape"))


def has_large_packs(local: Host, repo: Repo) -> bool:
    """Whether a repository holds enough to be worth asking who has it."""
    rows = git.run(local, repo.root, "count-objects", "-v").text.split("\n")
    return any(row.startswith("size-pack: ") and int(row[11:]) * 1024 >= LARGE_PACK_BYTES for row in rows)
