"""What commits change, line by line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.commits.trees import GIT_SAFE_ARGS, PathChange, parse_path_changes

_HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_NO_NEWLINE = "\\ No newline"


class Hunk(Struct):
    """Lines that take the place of others."""

    start: int  # how many lines of the old file stand before it
    old: tuple[str, ...]  # with their line ends
    new: tuple[str, ...]


class FileEdit(Struct):
    """What a change does to one file."""

    row: PathChange
    hunks: tuple[Hunk, ...] | None  # None: it is no text, or too large, or of another type now

    @property
    def has_only_line_edits(self) -> bool:
        """Whether it does nothing but change lines."""
        return bool(self.hunks) and self.row.status == "M" and self.row.old_mode == self.row.new_mode

    @property
    def added_lines(self) -> int:
        """Lines that are new."""
        return sum(len(hunk.new) for hunk in self.hunks or ())

    @property
    def removed_lines(self) -> int:
        """Lines that are gone."""
        return sum(len(hunk.old) for hunk in self.hunks or ())


def list_file_edits(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[list[FileEdit]]:
    """What differs between the trees of each pair, file by file."""
    if not pairs:
        return []
    asked = "".join(f"{old} {new}\n" for old, new in pairs).encode()
    words = (
        "diff-tree", "--stdin", "-r", "-z", "--raw", "-p", "-U0", "--inter-hunk-context=0", "--no-renames", "--no-abbrev",
        "--no-color", "--no-ext-diff", "--no-textconv", "--diff-algorithm=histogram",
    )  # fmt: skip
    done = git.run(local, repo, *GIT_SAFE_ARGS, *words, stdin=asked)
    if done.code:
        raise MngrError(f"git diff-tree failed in {repo}: {done.error_line}", git.suggest_hint(done.error_line))
    data = done.out.decode("utf-8", "surrogateescape")
    found: list[list[FileEdit]] = []
    at = 0
    for old, new in pairs:
        at += len(f"{old} {new}\n")
        rows, at = parse_path_changes(data, at)
        at += bool(rows)  # a NUL between rows and texts
        files: list[FileEdit] = []
        for row in rows:
            hunks, at = _parse_file(data, at)
            if row.status == "T":  # told as one file that goes and one that comes
                hunks, at = None, _parse_file(data, at)[1]
            files.append(FileEdit(row=row, hunks=None if hunks is None else tuple(hunks)))
        found.append(files)
    return found


def _parse_file(data: str, at: int) -> tuple[list[Hunk] | None, int]:
    """The hunks of the file that begins at a place, and where it ends."""
    hunks: list[Hunk] | None = []
    at = _find_next_line(data, at)  # diff --git
    while at < len(data) and not data.startswith("diff --git ", at):
        end = _find_next_line(data, at)
        line = data[at:end]
        if head := _HUNK_HEADER.match(line):
            hunk, at = _parse_hunk(data, end, head)
            if hunks is not None:
                hunks.append(hunk)
        elif line.startswith("Binary files "):
            hunks, at = None, end
        elif line.startswith(("index ", "--- ", "+++ ", "new ", "deleted ", "old ")):
            at = end
        else:  # the next pair
            break
    return hunks, at


def _parse_hunk(data: str, at: int, head: re.Match[str]) -> tuple[Hunk, int]:
    counts = [1 if head[group] is None else int(head[group]) for group in (2, 4)]
    sides: list[tuple[str, ...]] = []
    for count in counts:
        lines: list[str] = []
        for _ in range(count):
            end = _find_next_line(data, at)
            lines.append(data[at + 1 : end])
            at = end
        if data.startswith(_NO_NEWLINE, at):
            at = _find_next_line(data, at)
            lines[-1] = lines[-1].removesuffix("\n")
        sides.append(tuple(lines))
    first = int(head[1])
    return Hunk(start=first - 1 if counts[0] else first, old=sides[0], new=sides[1]), at


def _find_next_line(data: str, at: int) -> int:
    """Where the next line begins."""
    found = data.find("\n", at)
    return len(data) if found < 0 else found + 1


def apply_hunks(text: str, hunks: Iterable[Hunk]) -> str:
    """A file with some hunks of a change of it."""
    lines = text.split("\n")
    kept = [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    for hunk in sorted(hunks, key=lambda hunk: hunk.start, reverse=True):
        kept[hunk.start : hunk.start + len(hunk.old)] = hunk.new
    return "".join(kept)


def can_merge_hunks(some: Iterable[Hunk], others: Iterable[Hunk]) -> bool:
    """Whether a line that neither changes stands between any two of them, so that they merge whatever they say."""
    spans = sorted(
        (hunk.start, hunk.start + len(hunk.old), number) for number, part in enumerate((some, others)) for hunk in part
    )
    return all(before[1] < after[0] or before[2] == after[2] for before, after in itertools.pairwise(spans))
