"""Keeps the results of earlier runs, so that a run does not repeat known work."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from mngr.base.model import Struct
from mngr.base.paths import Home
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.prepare.history.history_file import HistoryFile
from mngr.tmr.prepare.root_causes import is_test_code


class HistoryEntry(Struct):
    """The latest result of a test."""

    test: str
    outcome: str  # fixed | improved | unchanged | blocked | …
    verdict: str | None  # the receipt's verdict
    run: str
    at: str
    fingerprint: str  # see Fingerprinter; at the time of the verdict
    commit: str = ""  # at the time of the verdict
    seconds: float = 0.0
    tokens: int = 0
    cost: float | None = None
    reason: str | None = None


class RunHistory(HistoryFile[HistoryEntry]):
    """The file `memory.json`, with one entry per test."""

    def __init__(self, home: Home, root: str) -> None:
        super().__init__(home, root, "memory.json", HistoryEntry, "test")
        self.tests: dict[str, HistoryEntry] = self.read()  # as read when this object was created

    def add(self, entries: Iterable[HistoryEntry]) -> None:
        """Add or replace entries, by test."""
        with self.edit_rows() as rows:
            rows |= {entry.test: entry for entry in entries}


class Fingerprinter:
    """Hashes everything that a test depends on at a commit.

    That is its file, the conftest and helper files above it, the tutorial and all code under test. All files that are
    not tests count, because programs run in other processes and mngr cannot know exactly which code a test runs.
    """

    def __init__(self, local: Host, repo: str, commit: str | None, tutorial: str | None) -> None:
        """Hash the files of `commit`, or the current files when it is None."""
        self._blobs = _hash_current_files(local, repo) if commit is None else _hash_files_at(local, repo, commit)
        code = [
            f"{path} {blob}" for path, blob in sorted(self._blobs.items()) if self._is_code(path) or path == tutorial
        ]
        self._code_hash = hashlib.sha256("\n".join(code).encode("utf-8", "surrogateescape")).hexdigest()

    def _is_code(self, path: str) -> bool:
        return not is_test_code(path) and not path.endswith((".md", ".rst", ".txt"))

    def fingerprint_test(self, path: str) -> str:
        """Return the fingerprint of the tests in this file."""
        folders = path.split("/")[:-1]
        parent_dirs = {"/".join(folders[:depth]) for depth in range(len(folders) + 1)}
        file_hashes = [
            f"{name} {blob}"
            for name, blob in sorted(self._blobs.items())
            if name == path or (name.rpartition("/")[0] in parent_dirs and _is_shared(name))
        ]
        return hashlib.sha256(
            "\n".join([*file_hashes, self._code_hash]).encode("utf-8", "surrogateescape")
        ).hexdigest()[:24]


def _is_shared(path: str) -> bool:
    """True when a Python file beside tests is not a test file: a conftest or a helper."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and not name.startswith("test_") and not name.endswith("_test.py")


def _hash_files_at(local: Host, repo: str, commit: str) -> dict[str, str]:
    """Return the git hash of each file of a commit, by path."""
    rows = git.run_checked(local, repo, "ls-tree", "-r", "-z", commit, git_command=git.SAFE_GIT).split("\0")
    return {path: details.split()[2] for details, _, path in (row.partition("\t") for row in rows) if path}


def _hash_current_files(local: Host, repo: str) -> dict[str, str]:
    """Return a hash of each file in a work tree that git does not ignore, without writing anything."""
    rows = git.run_checked(local, repo, "ls-files", "-s", "-z", git_command=git.SAFE_GIT).split("\0")
    hashes = {path: details.split()[1] for details, _, path in (row.partition("\t") for row in rows) if path}
    changed_paths = git.run_checked(
        local, repo, "ls-files", "-mo", "--exclude-standard", "-z", git_command=git.SAFE_GIT
    ).split("\0")
    for path in filter(None, changed_paths):
        try:
            with open(os.path.join(repo, path), "rb") as file:
                hashes[path] = hashlib.sha256(file.read()).hexdigest()
        except OSError:
            hashes.pop(path, None)
    return hashes
