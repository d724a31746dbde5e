"""Reads what commits change, line by line."""

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
    """Lines that replace other lines."""

    start: int  # number of lines of the old file before it
    old: tuple[str, ...]  # with line ends
    new: tuple[str, ...]


class FileHunks(Struct):
    """The edit of one file in a change."""

    row: PathChange
    hunks: tuple[Hunk, ...] | None  # None: not a text, too large, or now of another type

    @property
    def has_only_line_edits(self) -> bool:
        """True when the file only has changed lines: not added, deleted, or changed in mode."""
        return bool(self.hunks) and self.row.status == "M" and self.row.old_mode == self.row.new_mode

    @property
    def added_lines(self) -> int:
        """Return the number of new lines."""
        return sum(len(hunk.new) for hunk in self.hunks or ())

    @property
    def removed_lines(self) -> int:
        """Return the number of removed lines."""
        return sum(len(hunk.old) for hunk in self.hunks or ())


def list_file_edits(local: Host, repo: str, pairs: Sequence[tuple[str, str]]) -> list[list[FileHunks]]:
    """Return the file edits between the two trees of each pair."""
    if not pairs:
        return []
    request = "".join(f"{old} {new}\n" for old, new in pairs).encode()
    args = (
        "diff-tree",
        "--stdin",
        "-r",
        "-z",
        "--raw",
        "-p",
        "-U0",
        "--inter-hunk-context=0",
        "--no-renames",
        "--no-abbrev",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--diff-algorithm=histogram",
    )
    result = git.run(local, repo, *GIT_SAFE_ARGS, *args, stdin=request, git_command=git.ISOLATED_GIT)
    if result.code:
        raise MngrError(f"git diff-tree failed in {repo}: {result.error_line}", git.suggest_hint(result.error_line))
    data = result.out.decode("utf-8", "surrogateescape")
    edits: list[list[FileHunks]] = []
    position = 0
    for old, new in pairs:
        position += len(f"{old} {new}\n")
        rows, position = parse_path_changes(data, position)
        position += bool(rows)  # skip the NUL between rows and texts
        files: list[FileHunks] = []
        for row in rows:
            hunks, position = _parse_file(data, position)
            if row.status == "T":  # git shows it as one deleted and one added file
                hunks, position = None, _parse_file(data, position)[1]
            files.append(FileHunks(row=row, hunks=None if hunks is None else tuple(hunks)))
        edits.append(files)
    return edits


def _parse_file(data: str, position: int) -> tuple[list[Hunk] | None, int]:
    """Return the hunks of the file that begins at a position, and the position where it ends."""
    hunks: list[Hunk] | None = []
    position = _find_next_line(data, position)  # diff --git
    while position < len(data) and not data.startswith("diff --git ", position):
        end = _find_next_line(data, position)
        line = data[position:end]
        if header := _HUNK_HEADER.match(line):
            hunk, position = _parse_hunk(data, end, header)
            if hunks is not None:
                hunks.append(hunk)
        elif line.startswith("Binary files "):
            hunks, position = None, end
        elif line.startswith(("index ", "--- ", "+++ ", "new ", "deleted ", "old ")):
            position = end
        else:  # the next pair begins
            break
    return hunks, position


def _parse_hunk(data: str, position: int, header: re.Match[str]) -> tuple[Hunk, int]:
    """Return the hunk whose lines begin at a position, and the position where it ends."""
    counts = [1 if header[group] is None else int(header[group]) for group in (2, 4)]
    sides: list[tuple[str, ...]] = []
    for count in counts:
        lines: list[str] = []
        for _ in range(count):
            end = _find_next_line(data, position)
            lines.append(data[position + 1 : end])
            position = end
        if data.startswith(_NO_NEWLINE, position):
            position = _find_next_line(data, position)
            lines[-1] = lines[-1].removesuffix("\n")
        sides.append(tuple(lines))
    first = int(header[1])
    return Hunk(start=first - 1 if counts[0] else first, old=sides[0], new=sides[1]), position


def _find_next_line(data: str, position: int) -> int:
    """Return the position where the next line begins."""
    newline = data.find("\n", position)
    return len(data) if newline < 0 else newline + 1


def apply_hunks(text: str, hunks: Iterable[Hunk]) -> str:
    """Return a file's text with some hunks of a change applied."""
    parts = text.split("\n")
    lines = [f"{line}\n" for line in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
    for hunk in sorted(hunks, key=lambda hunk: hunk.start, reverse=True):
        lines[hunk.start : hunk.start + len(hunk.old)] = hunk.new
    return "".join(lines)


def can_merge_hunks(one_side: Iterable[Hunk], other_side: Iterable[Hunk]) -> bool:
    """True when an unchanged line separates each hunk from those of the other side, so that they always merge."""
    spans = sorted(
        (hunk.start, hunk.start + len(hunk.old), side)
        for side, hunks in enumerate((one_side, other_side))
        for hunk in hunks
    )
    return all(before[1] < after[0] or before[2] == after[2] for before, after in itertools.pairwise(spans))
