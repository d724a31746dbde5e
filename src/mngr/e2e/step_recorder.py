"""Writes `steps.jsonl`: for each command of a test its line in the transcript, its time, and the files that it changed."""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

_MAX_FILES = 1000  # Of a directory. In a larger one, changes are not recorded.
_MAX_TEXT = 20_000  # Bytes of a file whose lines are compared.
_MAX_TEXTS = 1_000_000  # Bytes of all such files.
_MAX_DIFF_LINES = 100  # Of one file.
_MAX_CHANGED_FILES = 30  # Of one command.


class FileState:
    """One file in a snapshot. `text` is None if the file is large or does not contain text."""

    def __init__(self, mark: tuple[int, int, int], text: str | None) -> None:
        self.mark = mark  # Inode, size and time of the last change.
        self.text = text


class StepRecorder:
    """Records the steps of one test. `root` is the directory whose files count."""

    def __init__(self, path: Path, root: Path, redact: Callable[[str], str]) -> None:
        self.redact = redact
        self._root = root
        self._began = time.monotonic()
        self._files: dict[str, FileState] | None = {}
        self._file: TextIO = path.open("a", encoding="utf-8", errors="backslashreplace", buffering=1)

    def begin_command(self) -> float:
        """Look at the files before a command, and return the time."""
        self._files = self._take_snapshot()
        return self._get_time()

    def end_command(self, line: int, at: float) -> None:
        """Write the step of a command that has ended."""
        before, self._files = self._files, self._take_snapshot()
        files = [] if before is None or self._files is None else list(self._compare(before, self._files))
        self._write(line=line, at=round(at, 3), files=files)

    def add_step(self, line: int) -> None:
        """Write a step that changes no files, such as keys in a terminal."""
        self._write(line=line, at=round(self._get_time(), 3), files=[])

    def add_terminal(self, line: int, name: str, began: float) -> None:
        """Write the step of a terminal whose recording began at this time of `time.monotonic`."""
        self._write(line=line, at=round(began - self._began, 3), files=[], terminal=name)

    def close(self) -> None:
        self._file.close()

    def _get_time(self) -> float:
        return time.monotonic() - self._began

    def _write(self, **row: object) -> None:
        if not self._file.closed:
            self._file.write(json.dumps(row) + "\n")

    def _take_snapshot(self) -> dict[str, FileState] | None:
        """Return the state of each file, or None if there are too many files."""
        known = self._files or {}
        files: dict[str, FileState] = {}
        left = _MAX_TEXTS
        for path, entry in _iter_files(self._root, ""):
            if len(files) >= _MAX_FILES:
                return None
            mark = (entry.st_ino, entry.st_size, entry.st_mtime_ns)
            state = known.get(path)
            if state is None or state.mark != mark:
                state = FileState(
                    mark, _read_text(self._root / path) if entry.st_size <= min(_MAX_TEXT, left) else None
                )
            left -= entry.st_size if state.text is not None else 0
            files[path] = state
        return files

    def _compare(self, before: dict[str, FileState], after: dict[str, FileState]) -> Iterator[dict[str, object]]:
        changed = [
            path
            for path in sorted({*before, *after})
            if path not in before or path not in after or before[path].mark != after[path].mark
        ]
        for path in changed[:_MAX_CHANGED_FILES]:
            old, new = before.get(path), after.get(path)
            kind = "added" if old is None else "removed" if new is None else "changed"
            yield {"path": self.redact(path), "change": kind, "diff": self._diff(old, new)}
        if len(changed) > _MAX_CHANGED_FILES:
            yield {"path": f"{len(changed) - _MAX_CHANGED_FILES} more files", "change": "changed", "diff": []}

    def _diff(self, old: FileState | None, new: FileState | None) -> list[str]:
        """Return the lines of a unified diff without its head; nothing if a file is large or no text."""
        import difflib

        old_text, new_text = ("" if state is None else state.text for state in (old, new))
        if old_text is None or new_text is None:
            return []
        old_lines, new_lines = self.redact(old_text).splitlines(), self.redact(new_text).splitlines()
        rows = list(difflib.unified_diff(old_lines, new_lines, lineterm="", n=2))[2:]
        surplus = len(rows) - _MAX_DIFF_LINES
        return rows[:_MAX_DIFF_LINES] + ([f"… {surplus} more lines"] if surplus > 0 else [])


def _iter_files(root: Path, folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of each regular file below `root`, without git's own files."""
    try:
        with os.scandir(root / folder) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = f"{folder}{entry.name}"
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != ".git":
                    yield from _iter_files(root, f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                yield path, entry.stat(follow_symlinks=False)
        except OSError:  # A process of the test has removed it.
            continue


def _read_text(path: Path) -> str | None:
    """Return the text of a small regular file, or None."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        try:
            return file.read(_MAX_TEXT + 1).decode()
        except (OSError, UnicodeDecodeError):
            return None
