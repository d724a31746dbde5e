"""The commits of a task with their diffs, as lines side by side. Agents wrote all of it, so everything is limited."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.web.report.diff.changed_words import WordMarker
from mngr.web.report.diff.syntax import CodePart, find_language, split_line
from mngr.web.report.report_data import ReportFacts, ReportTask
from mngr.web.untrusted_text import CleanText, clean_text

MAX_DIFF_BYTES = 400_000  # Of all commits of a task.
_MAX_COMMIT_LINES = 3_000  # Of one commit.
_MAX_LINE_LENGTH = 2_000
_LOG_ARGS = (
    "-c",
    "core.bigFileThreshold=1m",  # Files above 1 MB count as binary, whatever they contain.
    "log",
    "--no-show-signature",
    "--reverse",
    "--topo-order",
    "--max-count=200",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--no-notes",
    "--patch",
    "--submodule=short",
    "--format=%x00%H%n%an%n%B%n%x00",
)
_LIMIT_SCRIPT = 'limit=$1; shift; "$@" | head -c "$limit"'
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,\d+)? \+(\d{1,9})(?:,\d+)? @@")


class DiffLine(Struct):
    """A line of a file before or after a change."""

    number: int | None
    parts: list[CodePart]


class DiffBlock(Struct):
    """Lines that a change keeps, or lines that it removes with the lines that it adds instead."""

    is_change: bool
    old: list[DiffLine]
    new: list[DiffLine]


class DiffHunk(Struct):
    """A part of a file with a change."""

    header: str
    blocks: list[DiffBlock]


class FileDiff(Struct):
    """The changes of one file."""

    path: str
    notes: list[str]  # Such as a new mode, or that the file is binary.
    hunks: list[DiffHunk]

    @property
    def is_one_sided(self) -> bool:
        """True when the file is new or gone, so that there is nothing to show beside its lines."""
        blocks = [block for hunk in self.hunks for block in hunk.blocks]
        return not any(block.old for block in blocks) or not any(block.new for block in blocks)


class CommitDiff(Struct):
    """One commit of an agent."""

    commit: str
    author: str
    subject: str
    body: str
    files: list[FileDiff]
    hidden_lines: int


class TaskDiff(Struct):
    """The commits of a task."""

    commits: list[CommitDiff]
    is_cut: bool


def read_task_diff(local: Host, facts: ReportFacts, task: ReportTask) -> TaskDiff:
    """Return the commits of a task with their diffs."""
    base, commit = task.state.base, task.state.commit
    if not base or not commit or base == commit or not os.path.isdir(facts.run.repo):
        return TaskDiff(commits=[], is_cut=False)
    log = [*git.ISOLATED_GIT, "-C", facts.run.repo, *_LOG_ARGS, f"{base}..{commit}", "--"]
    result = local.run(["sh", "-c", _LIMIT_SCRIPT, "limit", str(MAX_DIFF_BYTES), *log])
    parts = re.split(r"(?m)^\0", result.out.decode("utf-8", "replace"))
    marker = WordMarker()
    commits = [_build_commit(header, patch, marker) for header, patch in zip(parts[1::2], parts[2::2], strict=False)]
    return TaskDiff(commits=commits, is_cut=len(result.out) >= MAX_DIFF_BYTES)


def _build_commit(header: str, patch: str, marker: WordMarker) -> CommitDiff:
    name, _, rest = header.partition("\n")
    author, _, message = rest.partition("\n")
    subject, _, body = message.strip().partition("\n")
    lines = clean_text(patch.strip("\n")).split("\n")
    return CommitDiff(
        commit=name,
        author=author,
        subject=subject,
        body=body.strip(),
        files=list(parse_patch(lines[:_MAX_COMMIT_LINES], marker)),
        hidden_lines=max(0, len(lines) - _MAX_COMMIT_LINES),
    )


def parse_patch(lines: list[str], marker: WordMarker) -> Iterator[FileDiff]:
    """Yield the diff of each file.

    A line of a file begins with a blank, a sign or a backslash, so it cannot look like a header.
    """
    starts = [index for index, line in enumerate(lines) if line.startswith("diff --git ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield _parse_file(lines[start:end], marker)


def _parse_file(lines: list[str], marker: WordMarker) -> FileDiff:
    path = _parse_path(lines[0][11:])
    starts = [index for index, line in enumerate(lines) if line.startswith("@@")]
    head_end = starts[0] if starts else len(lines)
    notes = [line for line in lines[1:head_end] if line and not line.startswith(("index ", "--- ", "+++ "))]
    hunks = [
        _parse_hunk(lines[start:end], find_language(path), marker)
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)
    ]
    return FileDiff(path=path, notes=notes, hunks=hunks)


def _parse_path(names: str) -> str:
    """Return `x` for `a/x b/x`."""
    half = names[2 : len(names) // 2]
    return half if names == f"a/{half} b/{half}" else names


def _parse_hunk(lines: list[str], language: str, marker: WordMarker) -> DiffHunk:
    match = _HUNK.match(lines[0])
    counter = _LineCounter(language, *((int(match[1]), int(match[2])) if match else (1, 1)))
    blocks: list[DiffBlock] = []
    pending: dict[str, list[str]] = {"same": [], "old": [], "new": []}

    def end_block() -> None:
        if pending["same"]:
            blocks.append(counter.build_context(pending["same"]))
        elif pending["old"] or pending["new"]:
            blocks.append(counter.build_change(pending["old"], pending["new"], marker))
        for texts in pending.values():
            texts.clear()

    for line in lines[1:]:
        side = {"-": "old", "+": "new"}.get(line[:1], "same")
        if line.startswith("\\"):  # "No newline at end of file"
            continue
        if (side == "same") != bool(pending["same"]):
            end_block()
        pending[side].append(line[1:])
    end_block()
    return DiffHunk(header=lines[0], blocks=blocks)


class _LineCounter:
    """Builds the blocks of a hunk, and counts their lines."""

    def __init__(self, language: str, old: int, new: int) -> None:
        self._language = language
        self._old, self._new = old, new

    def build_context(self, texts: list[str]) -> DiffBlock:
        parts = [self._split(text) for text in texts]
        old = [DiffLine(number=self._old + index, parts=each) for index, each in enumerate(parts)]
        new = [DiffLine(number=self._new + index, parts=each) for index, each in enumerate(parts)]
        self._old += len(texts)
        self._new += len(texts)
        return DiffBlock(is_change=False, old=old, new=new)

    def build_change(self, old: list[str], new: list[str], marker: WordMarker) -> DiffBlock:
        """Return removed and added lines. Words that differ between two lines at the same place are marked."""
        old_parts, new_parts = [self._split(text) for text in old], [self._split(text) for text in new]
        for index in range(min(len(old), len(new))):
            old_parts[index], new_parts[index] = marker.mark(old_parts[index], new_parts[index])
        block = DiffBlock(
            is_change=True,
            old=[DiffLine(number=self._old + index, parts=parts) for index, parts in enumerate(old_parts)],
            new=[DiffLine(number=self._new + index, parts=parts) for index, parts in enumerate(new_parts)],
        )
        self._old += len(old)
        self._new += len(new)
        return block

    def _split(self, text: str) -> list[CodePart]:
        if len(text) <= _MAX_LINE_LENGTH:
            return split_line(text, self._language)
        note = f"… {len(text) - _MAX_LINE_LENGTH} more characters are not shown"
        return [CodePart("", CleanText(text[:_MAX_LINE_LENGTH])), CodePart("cut", CleanText(note))]
