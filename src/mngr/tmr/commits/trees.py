"""Commits made of commits: read, merged and written with git's plumbing, many at a time; nothing is checked out and nothing is run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host

# What the user has set for merges of their own must not decide what ours give.
GIT_SAFE_ARGS = (
    "--no-replace-objects", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null",
    "-c", "core.bigFileThreshold=1m", "-c", "merge.renames=true", "-c", "merge.directoryRenames=false",
    "-c", "merge.conflictStyle=merge", "-c", "diff.renameLimit=1000", "-c", "core.quotePath=false",
)  # fmt: skip
ABSENT_MODE = "000000"
TREE_MODE = "040000"
MNGR_AUTHOR = "mngr <mngr@localhost>"


class PathChange(Struct):
    """One path that differs: its mode and object on both sides."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str
    status: str
    content: bytes | None = None  # what is to be written, in place of an object

    @property
    def inverse(self) -> PathChange:
        """The same the other way round."""
        status = {"A": "D", "D": "A"}.get(self.status, self.status)
        return self.replace(old_mode=self.new_mode, new_mode=self.old_mode, old=self.new, new=self.old, status=status)


class CommitSpec(Struct):
    """A commit to be made: what it changes of its parent, or with the path "" the whole tree."""

    parent: str  # a commit, or `:N` for the Nth of those that are made with it
    rows: list[PathChange]
    author: str = f"{MNGR_AUTHOR} 0 +0000"
    committer: str = f"{MNGR_AUTHOR} 0 +0000"
    message: str = ""


class MergeResult(Struct):
    """How two commits go together."""

    tree: str
    conflict_paths: list[str]  # that do not; none when they do


class PathSet:
    """The paths that a change is about, and the directories that they need."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self.files: set[str] = set()
        self.parent_dirs: set[str] = set()
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Take in more paths."""
        for path in paths:
            self.files.add(path)
            while path := path.rpartition("/")[0]:
                self.parent_dirs.add(path)

    def has_overlap(self, other: PathSet) -> bool:
        """Whether there is a place where both have something to say."""
        return not (
            self.files.isdisjoint(other.files)
            and self.files.isdisjoint(other.parent_dirs)
            and self.parent_dirs.isdisjoint(other.files)
        )


def list_trees(local: Host, repo: str, names: Sequence[str]) -> list[str | None]:
    """The tree of each commit; None where there is no such commit."""
    if not names:
        return []
    asked = "".join(f"{name}^{{tree}}\n" for name in names).encode()
    said = git.run_checked(
        local, repo, *GIT_SAFE_ARGS, "cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked
    )
    rows = [line.split(" ") for line in said.split("\n")]
    return [row[0] if row[1:] == ["tree"] else None for row in rows]


def diff_trees(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[list[PathChange]]:
    """What differs between the trees of each pair; no file is read."""
    if not pairs:
        return []
    asked = "".join(f"{old} {new}\n" for old, new in pairs).encode()
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    done = git.run(local, repo, *GIT_SAFE_ARGS, *words, stdin=asked)
    if done.code:
        raise MngrError(f"git diff-tree failed in {repo}: {done.error_line}", git.suggest_hint(done.error_line))
    data = done.out.decode("utf-8", "surrogateescape")
    found: list[list[PathChange]] = []
    at = 0
    for old, new in pairs:
        at += len(f"{old} {new}\n")
        rows, at = parse_path_changes(data, at)
        found.append(rows)
    return found


def parse_path_changes(data: str, at: int) -> tuple[list[PathChange], int]:
    """The raw rows that begin at a place, and where they end."""
    rows: list[PathChange] = []
    while data.startswith(":", at):
        middle = data.index("\0", at)
        end = data.index("\0", middle + 1)
        old_mode, new_mode, old, new, status = data[at + 1 : middle].split(" ")
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
        at = end + 1
    return rows, at


def read_sizes(local: Host, repo: str, names: Iterable[str]) -> dict[str, int]:
    """The size of each object that is there; none is read."""
    wanted = sorted(set(names))
    if not wanted:
        return {}
    asked = "".join(f"{name}\n" for name in wanted).encode()
    said = git.run_checked(
        local, repo, *GIT_SAFE_ARGS, "cat-file", "--batch-check=%(objectname) %(objectsize)", stdin=asked
    )
    rows = (line.split(" ") for line in said.split("\n"))
    return {row[0]: int(row[1]) for row in rows if row[-1].isdigit()}


def read_blobs(local: Host, repo: str, names: Iterable[str], most: int) -> dict[str, bytes]:
    """What is in each object of at most so many bytes."""
    sizes = read_sizes(local, repo, names)
    small = [name for name, size in sizes.items() if size <= most]
    asked = "".join(f"{name}\n" for name in small).encode()
    data = git.run(local, repo, *GIT_SAFE_ARGS, "cat-file", "--batch", stdin=asked).out if small else b""
    found: dict[str, bytes] = {}
    at = 0
    for name in small:
        begin = data.index(b"\n", at) + 1
        found[name] = data[begin : begin + sizes[name]]
        at = begin + sizes[name] + 1
    return found


def read_files(local: Host, repo: str, commit: str, paths: Iterable[str], most: int) -> dict[str, bytes]:
    """The files of a commit at or below some paths, of at most so many bytes each."""
    said = git.run_checked(local, repo, *GIT_SAFE_ARGS, "ls-tree", "-r", "-z", commit, "--", *sorted(set(paths)))
    rows = [row.split("\t", 1) for row in said.split("\0") if "\t" in row]
    names = {path: about.split(" ")[2] for about, path in rows if about.startswith("100")}
    texts = read_blobs(local, repo, names.values(), most)
    return {path: texts[name] for path, name in sorted(names.items()) if name in texts}


def merge_pairs(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[MergeResult]:
    """How the commits of each pair go together, from where they part."""
    if not pairs:
        return []
    asked = "".join(f"{one} {other}\n" for one, other in pairs).encode()
    words = ("merge-tree", "--write-tree", "--stdin", "-z", "--name-only", "--no-messages")
    done = git.run(local, repo, *GIT_SAFE_ARGS, *words, stdin=asked)
    if done.code:
        raise MngrError(f"git merge-tree failed in {repo}: {done.error_line}", git.suggest_hint(done.error_line))
    words_said = iter(done.out.decode("utf-8", "surrogateescape").split("\0"))
    found: list[MergeResult] = []
    for _ in pairs:
        is_clean = next(words_said) == "1"
        tree = next(words_said)
        paths = list(iter(lambda: next(words_said), ""))
        found.append(MergeResult(tree=tree, conflict_paths=[] if is_clean else sorted(set(paths))))
    return found


def write_commits(local: Host, repo: str, specs: Sequence[CommitSpec]) -> list[str]:
    """Make commits, always the same ones of the same specs; no name leads to them."""
    if not specs:
        return []
    name = f"refs/mngr/making/{os.getpid()}-{threading.get_ident()}"
    script = bytearray()
    for number, spec in enumerate(specs, 1):
        message = spec.message.encode("utf-8", "replace")
        script += f"commit {name}\nmark :{number}\nauthor {spec.author}\ncommitter {spec.committer}\n".encode()
        script += b"data %d\n%s\nfrom %s\n" % (len(message), message, spec.parent.encode())
        for row in sorted(spec.rows, key=lambda row: (row.path != "", row.new_mode != ABSENT_MODE, row.path)):
            script += _format_file(row)
        script += b"\nget-mark :%d\n" % number
    script += f"reset {name}\nfrom {'0' * len(specs[0].parent)}\n\n".encode()
    done = git.run(
        local,
        repo,
        *GIT_SAFE_ARGS,
        "fast-import",
        "--quiet",
        "--force",
        "--date-format=raw",
        stdin=bytes(script),
    )
    if done.code:
        raise MngrError(f"git fast-import failed in {repo}: {done.error_line}", git.suggest_hint(done.error_line))
    return done.text.split("\n")


def _format_file(row: PathChange) -> bytes:
    path = row.path.encode("utf-8", "surrogateescape")
    quoted = b'"%s"' % path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    if row.new_mode == ABSENT_MODE:
        return b"D %s\n" % quoted
    mode = row.new_mode.encode()
    if row.content is not None:
        return b"M %s inline %s\ndata %d\n%s\n" % (mode, quoted, len(row.content), row.content)
    return b"M %s %s %s\n" % (mode, row.new.encode(), quoted)


def make_tree_row(tree: str) -> PathChange:
    """A row that says all of a commit's tree."""
    return PathChange(path="", old_mode=TREE_MODE, new_mode=TREE_MODE, old="", new=tree, status="M")


def cherry_pick(local: Host, repo: str, onto: str, parent: str, commit: str) -> MergeResult:
    """What a commit did to its parent, done to another tree."""
    stand = write_commits(local, repo, [CommitSpec(parent=parent, rows=[make_tree_row(onto)])])[0]
    return merge_pairs(local, repo, [(stand, commit)])[0]
