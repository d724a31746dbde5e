"""Reads with git what a claimed commit changes, commit by commit. It runs nothing and does not read large files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.verify.claim import CHANGE_KINDS, ClaimedChange
from mngr.tmr.verify.rules.changed_file import ChangedFile

_MAX_TEXT_BYTES = 1 << 20  # larger files are not read
_MAX_COMMITS = 200  # commits that are read one by one
_KIND_PATTERN = re.compile(r"\[([A-Z_]+)\]")
_NULL_OBJECT = re.compile("0+$")


class ClaimedCommit(Struct):
    """One commit of a claim."""

    commit: str
    parent: str
    kind: str  # "" when neither the commit nor the claim names one
    subject: str
    changes: list[ChangedFile]


def list_commits(
    local: Host, repo: str, base: str, commit: str, claimed_changes: Sequence[ClaimedChange] = ()
) -> list[ClaimedCommit]:
    """Return the commits since the base, oldest first. The claimed changes can name their kinds.

    Raise MngrError when there are too many, because none may go unchecked.
    """
    kind_by_commit = {name: change.kind for change in claimed_changes for name in change.commits}
    args = (
        "log",
        "--no-show-signature",
        "--reverse",
        "--topo-order",
        "--format=%H %P%x00%s",
        f"--max-count={_MAX_COMMITS + 1}",
        f"{base}..{commit}",
        "--",
    )
    lines = list(filter(None, git.run_checked(local, repo, *args, git_command=git.SAFE_GIT).split("\n")))
    if len(lines) > _MAX_COMMITS:
        raise MngrError(
            f"there are more than {_MAX_COMMITS} commits since {base[:10]}",
            f"squash them: git rebase -i {base[:10]}; or choose a later base: mngr tmr verify BRANCH --base REF",
        )
    commits: list[ClaimedCommit] = []
    for line in lines:
        ids, _, subject = line.partition("\0")
        commit_id, *parents = ids.split(" ")
        match = _KIND_PATTERN.match(subject)
        kind = match[1] if match and match[1] in CHANGE_KINDS else _find_kind(kind_by_commit, commit_id)
        parent = parents[0] if parents and parents[0] else base
        commits.append(
            ClaimedCommit(
                commit=commit_id,
                parent=parent,
                kind=kind,
                subject=subject,
                changes=diff_commits(local, repo, parent, commit_id),
            )
        )
    return commits


def diff_commits(local: Host, repo: str, old: str, new: str) -> list[ChangedFile]:
    """Return every file that differs between two commits or trees, with both texts where it is a text."""
    args = (
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
    parts = git.run_checked(local, repo, *args, git_command=git.SAFE_GIT).split("\0")
    rows = [(parts[index], parts[index + 1]) for index in range(0, len(parts) - 1, 2) if parts[index].startswith(":")]
    names = {name for raw_fields, _ in rows for name in raw_fields.split()[2:4] if not _NULL_OBJECT.match(name)}
    blobs = _read_blobs(local, repo, names)
    return [_make_change(raw_fields.removeprefix(":").split(), path, blobs) for raw_fields, path in rows]


def _make_change(raw_fields: list[str], path: str, blobs: dict[str, tuple[int, bytes | None]]) -> ChangedFile:
    old_mode, new_mode, old, new, status = raw_fields
    old_size, before = blobs.get(old, (0, b"" if _NULL_OBJECT.match(old) else None))
    size, after = blobs.get(new, (0, b"" if _NULL_OBJECT.match(new) else None))
    texts = [None if _NULL_OBJECT.match(name) else _decode_text(data) for name, data in ((old, before), (new, after))]
    is_binary = any(data is not None and b"\0" in data[:8000] for data in (before, after))
    return ChangedFile(
        path=path,
        status=status[0],
        old_mode=old_mode,
        new_mode=new_mode,
        old_size=old_size,
        size=size,
        binary=is_binary,
        old=texts[0],
        new=texts[1],
    )


def _decode_text(data: bytes | None) -> str | None:
    if data is None or b"\0" in data[:8000]:
        return None
    return data.decode("utf-8", "replace")


def _read_blobs(local: Host, repo: str, names: Iterable[str]) -> dict[str, tuple[int, bytes | None]]:
    """Return the size of each blob, and its content unless it is too large."""
    wanted = sorted(names)
    request = "".join(f"{name}\n" for name in wanted).encode()
    rows = git.run_checked(
        local,
        repo,
        "cat-file",
        "--batch-check=%(objectname) %(objecttype) %(objectsize)",
        stdin=request,
        git_command=git.SAFE_GIT,
    )
    sizes = {
        name: int(size)
        for name, kind, size in (row.split(" ") for row in rows.split("\n") if row.count(" ") == 2)
        if kind == "blob"
    }
    small = [name for name in wanted if sizes.get(name, _MAX_TEXT_BYTES + 1) <= _MAX_TEXT_BYTES]
    data = git.run(
        local,
        repo,
        "cat-file",
        "--batch",
        stdin="".join(f"{name}\n" for name in small).encode(),
        git_command=git.SAFE_GIT,
    ).out
    blobs: dict[str, tuple[int, bytes | None]] = {name: (size, None) for name, size in sizes.items()}
    offset = 0
    for name in small:
        start = data.index(b"\n", offset) + 1
        blobs[name] = (sizes[name], data[start : start + sizes[name]])
        offset = start + sizes[name] + 1
    return blobs


def _find_kind(kind_by_commit: dict[str, str], commit: str) -> str:
    kind = next((kind for name, kind in kind_by_commit.items() if len(name) >= 7 and commit.startswith(name)), "")
    return kind if kind in CHANGE_KINDS else ""
