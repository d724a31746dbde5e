"""Builds commits from other commits with git's plumbing commands, many at a time.

Nothing is checked out and no code of the project runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host

# The user's settings for merges must not change the results of mngr's merges.
_CONFIG_OPTIONS = git.build_config_options(
    "core.hooksPath=/dev/null",
    "core.attributesFile=/dev/null",
    "core.bigFileThreshold=1m",
    "merge.renames=true",
    "merge.directoryRenames=false",
    "merge.conflictStyle=merge",
    "diff.renameLimit=1000",
    "core.quotePath=false",
)
GIT_SAFE_ARGS = ("--no-replace-objects", *_CONFIG_OPTIONS)
ABSENT_MODE = "000000"
TREE_MODE = "040000"
MNGR_AUTHOR = "mngr <mngr@localhost>"


class PathChange(Struct):
    """A path that differs between two trees, with its mode and object on both sides."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str
    status: str
    content: bytes | None = None  # written in place of the object `new`

    @property
    def inverse(self) -> PathChange:
        """Return the same change in the opposite direction."""
        status = {"A": "D", "D": "A"}.get(self.status, self.status)
        return self.replace(old_mode=self.new_mode, new_mode=self.old_mode, old=self.new, new=self.old, status=status)


class CommitSpec(Struct):
    """A commit to write: its changes to its parent, or its whole tree as a row with the path ""."""

    parent: str  # a commit, or `:N` for the Nth commit written by the same call
    rows: list[PathChange]
    author: str = f"{MNGR_AUTHOR} 0 +0000"
    committer: str = f"{MNGR_AUTHOR} 0 +0000"
    message: str = ""


class MergeResult(Struct):
    """The result of merging two commits."""

    tree: str
    conflict_paths: list[str]  # empty when the commits merge


class PathSet:
    """The paths of a change, and their parent directories."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.files: set[str] = set()
        self.parent_dirs: set[str] = set()
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Add more paths."""
        for path in paths:
            self.files.add(path)
            while path := path.rpartition("/")[0]:
                self.parent_dirs.add(path)

    def has_overlap(self, other: PathSet) -> bool:
        """True when both change the same path, or one has a file where the other has a directory."""
        return not (
            self.files.isdisjoint(other.files)
            and self.files.isdisjoint(other.parent_dirs)
            and self.parent_dirs.isdisjoint(other.files)
        )


def list_trees(local: Host, repo: str, names: Sequence[str]) -> list[str | None]:
    """Return the tree of each commit, or None where there is no such commit."""
    if not names:
        return []
    request = "".join(f"{name}^{{tree}}\n" for name in names).encode()
    output = git.run_checked(
        local,
        repo,
        *GIT_SAFE_ARGS,
        "cat-file",
        "--batch-check=%(objectname) %(objecttype)",
        stdin=request,
        git_command=git.SAFE_GIT,
    )
    rows = [line.split(" ") for line in output.split("\n")]
    return [row[0] if row[1:] == ["tree"] else None for row in rows]


def diff_trees(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[list[PathChange]]:
    """Return the changed paths between the two trees of each pair, without reading any file."""
    if not pairs:
        return []
    request = "".join(f"{old} {new}\n" for old, new in pairs).encode()
    args = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    result = git.run(local, repo, *GIT_SAFE_ARGS, *args, stdin=request, git_command=git.SAFE_GIT)
    if result.code:
        raise MngrError(f"git diff-tree failed in {repo}: {result.error_line}", git.suggest_hint(result.error_line))
    data = result.out.decode("utf-8", "surrogateescape")
    changes: list[list[PathChange]] = []
    position = 0
    for old, new in pairs:
        position += len(f"{old} {new}\n")
        rows, position = parse_path_changes(data, position)
        changes.append(rows)
    return changes


def parse_path_changes(data: str, position: int) -> tuple[list[PathChange], int]:
    """Return the raw rows that begin at a position, and the position where they end."""
    rows: list[PathChange] = []
    while data.startswith(":", position):
        middle = data.index("\0", position)
        end = data.index("\0", middle + 1)
        old_mode, new_mode, old, new, status = data[position + 1 : middle].split(" ")
        rows.append(
            PathChange(
                path=data[middle + 1 : end],
                old_mode=old_mode,
                new_mode=new_mode,
                old=old,
                new=new,
                status=status[0],
            )
        )
        position = end + 1
    return rows, position


def read_sizes(local: Host, repo: str, names: Iterable[str]) -> dict[str, int]:
    """Return the size of each object that exists, without reading its content."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    request = "".join(f"{name}\n" for name in wanted).encode()
    output = git.run_checked(
        local,
        repo,
        *GIT_SAFE_ARGS,
        "cat-file",
        "--batch-check=%(objectname) %(objectsize)",
        stdin=request,
        git_command=git.SAFE_GIT,
    )
    rows = (line.split(" ") for line in output.split("\n"))
    return {row[0]: int(row[1]) for row in rows if row[-1].isdigit()}


def read_blobs(local: Host, repo: str, names: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Return the content of each object of at most `max_bytes`."""
    sizes = read_sizes(local, repo, names)
    small = [name for name, size in sizes.items() if size <= max_bytes]
    request = "".join(f"{name}\n" for name in small).encode()
    data = (
        git.run(local, repo, *GIT_SAFE_ARGS, "cat-file", "--batch", stdin=request, git_command=git.SAFE_GIT).out
        if small
        else b""
    )
    contents: dict[str, bytes] = {}
    position = 0
    for name in small:
        begin = data.index(b"\n", position) + 1
        contents[name] = data[begin : begin + sizes[name]]
        position = begin + sizes[name] + 1
    return contents


def read_files(local: Host, repo: str, commit: str, paths: Iterable[str], max_bytes: int) -> dict[str, bytes]:
    """Return the files of a commit at or below some paths, of at most `max_bytes` each."""
    output = git.run_checked(
        local, repo, *GIT_SAFE_ARGS, "ls-tree", "-r", "-z", commit, "--", *sorted(set(paths)), git_command=git.SAFE_GIT
    )
    rows = [row.split("\t", 1) for row in output.split("\0") if "\t" in row]
    blobs = {path: details.split(" ")[2] for details, path in rows if details.startswith("100")}
    contents = read_blobs(local, repo, blobs.values(), max_bytes)
    return {path: contents[blob] for path, blob in sorted(blobs.items()) if blob in contents}


def merge_pairs(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[MergeResult]:
    """Merge the two commits of each pair, from their merge base."""
    if not pairs:
        return []
    request = "".join(f"{first} {second}\n" for first, second in pairs).encode()
    args = ("merge-tree", "--write-tree", "--stdin", "-z", "--name-only", "--no-messages")
    result = git.run(local, repo, *GIT_SAFE_ARGS, *args, stdin=request, git_command=git.ISOLATED_GIT)
    if result.code:
        raise MngrError(f"git merge-tree failed in {repo}: {result.error_line}", git.suggest_hint(result.error_line))
    fields = iter(result.out.decode("utf-8", "surrogateescape").split("\0"))
    results: list[MergeResult] = []
    for _ in pairs:
        is_clean = next(fields) == "1"
        tree = next(fields)
        paths = list(iter(lambda: next(fields), ""))
        results.append(MergeResult(tree=tree, conflict_paths=[] if is_clean else sorted(set(paths))))
    return results


def write_commits(local: Host, repo: str, specs: Sequence[CommitSpec]) -> list[str]:
    """Write commits without refs and return their ids. The same specs always give the same commits."""
    if not specs:
        return []
    ref = f"refs/mngr/making/{os.getpid()}-{threading.get_ident()}"
    script = bytearray()
    for number, spec in enumerate(specs, 1):
        message = spec.message.encode("utf-8", "replace")
        script += f"commit {ref}\nmark :{number}\nauthor {spec.author}\ncommitter {spec.committer}\n".encode()
        script += b"data %d\n%s\nfrom %s\n" % (len(message), message, spec.parent.encode())
        for row in sorted(spec.rows, key=lambda row: (row.path != "", row.new_mode != ABSENT_MODE, row.path)):
            script += _format_file(row)
        script += b"\nget-mark :%d\n" % number
    script += f"reset {ref}\nfrom {'0' * len(specs[0].parent)}\n\n".encode()
    result = git.run(
        local,
        repo,
        *GIT_SAFE_ARGS,
        "fast-import",
        "--quiet",
        "--force",
        "--date-format=raw",
        stdin=bytes(script),
        git_command=git.ISOLATED_GIT,
    )
    if result.code:
        raise MngrError(f"git fast-import failed in {repo}: {result.error_line}", git.suggest_hint(result.error_line))
    return result.text.split("\n")


def _format_file(row: PathChange) -> bytes:
    """Return a path change as a command of `git fast-import`."""
    path = row.path.encode("utf-8", "surrogateescape")
    quoted = b'"%s"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    if row.new_mode == ABSENT_MODE:
        return b"D %s\n" % quoted
    mode = row.new_mode.encode()
    if row.content is not None:
        return b"M %s inline %s\ndata %d\n%s\n" % (mode, quoted, len(row.content), row.content)
    return b"M %s %s %s\n" % (mode, row.new.encode(), quoted)


def make_tree_row(tree: str) -> PathChange:
    """Return a row that replaces the whole tree of a commit."""
    return PathChange(path="", old_mode=TREE_MODE, new_mode=TREE_MODE, old="", new=tree, status="M")


def cherry_pick(local: Host, repo: str, onto: str, parent: str, commit: str) -> MergeResult:
    """Apply what a commit did to its parent to another tree."""
    target_commit = write_commits(local, repo, [CommitSpec(parent=parent, rows=[make_tree_row(onto)])])[0]
    return merge_pairs(local, repo, [(target_commit, commit)])[0]
