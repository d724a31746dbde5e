"""What a claimed commit changes, commit by commit, read with git alone: nothing of it is run, and large things are not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.verify.legacy.policy import Change

CHANGE_KINDS = ("FIX_IMPL", "FIX_TEST", "IMPROVE_TEST", "ADD_TEST", "FIX_TUTORIAL", "FIX_DOC")
_MAX_TEXT_BYTES = 1 << 20  # bytes of a text that is read
_MAX_COMMITS = 200  # commits that are looked at one by one
_KIND_PATTERN = re.compile(r"\[([A-Z_]+)\]")
_NULL_OBJECT = re.compile("0+$")


class ClaimedCommit(Struct):
    """One commit of a claim."""

    commit: str
    parent: str
    kind: str  # "" when it does not say
    subject: str
    changes: list[Change]


def list_commits(
    local: Host, repo: str, base: str, commit: str, claim: Mapping[str, Any] | None = None
) -> list[ClaimedCommit]:
    """The commits since the base, oldest first; `claim` is the result that says of which kind they are.

    MngrError when there are too many: none may go unseen.
    """
    said = _map_claimed_kinds(claim or {})
    words = (
        "log",
        "--no-show-signature",
        "--reverse",
        "--topo-order",
        "--format=%H %P%x00%s",
        f"--max-count={_MAX_COMMITS + 1}",
        f"{base}..{commit}",
        "--",
    )
    lines = list(filter(None, git.run_checked(local, repo, *words).split("\n")))
    if len(lines) > _MAX_COMMITS:
        raise MngrError(
            f"there are more than {_MAX_COMMITS} commits since {base[:10]}",
            "squash them, or choose another base",
        )
    found: list[ClaimedCommit] = []
    for line in lines:
        names, _, subject = line.partition("\0")
        own, *parents = names.split(" ")
        kind = _KIND_PATTERN.match(subject)
        known = kind[1] if kind and kind[1] in CHANGE_KINDS else _find_kind(said, own)
        parent = parents[0] if parents and parents[0] else base
        found.append(
            ClaimedCommit(
                commit=own,
                parent=parent,
                kind=known,
                subject=subject,
                changes=diff_commits(local, repo, parent, own),
            )
        )
    return found


def diff_commits(local: Host, repo: str, old: str, new: str) -> list[Change]:
    """Every file that differs between two commits or trees, with its text on both sides where it is one."""
    words = (
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-renames",
        "--no-abbrev",
        "--no-ext-diff",
        "--no-textconv",
        old,
        new,
        "--",
    )
    parts = git.run_checked(local, repo, *words).split("\0")
    rows = [(parts[at], parts[at + 1]) for at in range(0, len(parts) - 1, 2) if parts[at].startswith(":")]
    names = {name for about, _ in rows for name in about.split()[2:4] if not _NULL_OBJECT.match(name)}
    blobs = _read_blobs(local, repo, names)
    return [_make_change(about.removeprefix(":").split(), path, blobs) for about, path in rows]


def _make_change(about: list[str], path: str, blobs: dict[str, tuple[int, bytes | None]]) -> Change:
    old_mode, new_mode, old, new, status = about
    old_size, before = blobs.get(old, (0, b"" if _NULL_OBJECT.match(old) else None))
    size, after = blobs.get(new, (0, b"" if _NULL_OBJECT.match(new) else None))
    texts = [None if _NULL_OBJECT.match(name) else _decode_text(data) for name, data in ((old, before), (new, after))]
    is_binary = any(data is not None and b"\0" in data[:8000] for data in (before, after))
    return Change(
        path=path, status=status[0], old_mode=old_mode, new_mode=new_mode, old_size=old_size, size=size,
        binary=is_binary, old=texts[0], new=texts[1],
    )  # fmt: skip


def _decode_text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data[:8000]:
        return None
    return data.decode("utf-8", "replace")


def _read_blobs(local: Host, repo: str, names: Iterable[str]) -> dict[str, tuple[int, bytes | None]]:
    """The size of each object, and what is in it unless it is too large or no blob."""
    wanted = sorted(names)
    asked = "".join(f"{name}\n" for name in wanted).encode()
    rows = git.run_checked(
        local, repo, "cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=asked
    )
    sizes = {
        name: int(size)
        for name, kind, size in (row.split(" ") for row in rows.split("\n") if row.count(" ") == 2)
        if kind == "blob"
    }
    small = [name for name in wanted if sizes.get(name, _MAX_TEXT_BYTES + 1) <= _MAX_TEXT_BYTES]
    data = git.run(local, repo, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in small).encode()).out
    found: dict[str, tuple[int, bytes | None]] = {name: (size, None) for name, size in sizes.items()}
    at = 0
    for name in small:
        begin = data.index(b"\n", at) + 1
        found[name] = (sizes[name], data[begin : begin + sizes[name]])
        at = begin + sizes[name] + 1
    return found


def _map_claimed_kinds(claim: Mapping[str, Any]) -> dict[str, str]:
    """Which kind the result gives to which commit."""
    rows = claim.get("changes")
    found: dict[str, str] = {}
    for row in rows if isinstance(rows, list) else ():
        for name in row.get("commits") or ():
            found[str(name)] = str(row.get("kind"))
    return found


def _find_kind(said: dict[str, str], commit: str) -> str:
    kind = next((kind for name, kind in said.items() if len(name) >= 7 and commit.startswith(name)), "")
    return kind if kind in CHANGE_KINDS else ""
