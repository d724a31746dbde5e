"""What earlier runs have found out, beside the runs: so that nothing is done twice that is known."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.prepare.history_files import HistoryFile
from mngr.tmr.prepare.root_causes import is_test_code


class HistoryEntry(Struct):
    """The last word on a test."""

    test: str
    outcome: str  # fixed | improved | unchanged | blocked | …
    verdict: str | None  # of the receipt
    run: str
    at: str
    print: str  # of the test's source, what it shares, and the code under test, as the verdict saw them
    seconds: float = 0.0
    tokens: int = 0
    cost: float | None = None
    reason: str | None = None


class RunHistory(HistoryFile[HistoryEntry]):
    """`memory.json`: one entry a test."""

    def __init__(self, root: str) -> None:
        super().__init__(root, "memory.json", HistoryEntry, "test")
        self.tests: dict[str, HistoryEntry] = self.read()  # as they were then

    def add(self, found: Iterable[HistoryEntry]) -> None:
        """Remember more."""
        with self.edit_rows() as rows:
            rows |= {one.test: one for one in found}


class Fingerprinter:
    """What a test depends on at a commit, as a hash: its file, conftest and helpers above it, the tutorial, all code under test.

    Which code a test runs is not known exactly (programs are run in other processes), so all that is no test counts.
    """

    def __init__(self, local: Host, repo: str, commit: str | None, tutorial: str | None) -> None:
        """`commit` None: as the files are now."""
        self._blobs = _hash_current_files(local, repo) if commit is None else _hash_files_at(local, repo, commit)
        code = [
            f"{path} {blob}" for path, blob in sorted(self._blobs.items()) if self._is_code(path) or path == tutorial
        ]
        self._code_hash = hashlib.sha256("\n".join(code).encode("utf-8", "surrogateescape")).hexdigest()

    def _is_code(self, path: str) -> bool:
        return not is_test_code(path) and not path.endswith((".md", ".rst", ".txt"))

    def fingerprint_test(self, path: str) -> str:
        """The print of a test in this file."""
        above = path.split("/")[:-1]
        places = {"/".join(above[:depth]) for depth in range(len(above) + 1)}
        own = [
            f"{name} {blob}"
            for name, blob in sorted(self._blobs.items())
            if name == path or (name.rpartition("/")[0] in places and _is_shared(name))
        ]
        return hashlib.sha256("\n".join([*own, self._code_hash]).encode("utf-8", "surrogateescape")).hexdigest()[:24]


def _is_shared(path: str) -> bool:
    """Whether a file beside tests is none itself: a conftest, a helper."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and not name.startswith("test_") and not name.endswith("_test.py")


def _hash_files_at(local: Host, repo: str, commit: str) -> dict[str, str]:
    """Each file of a commit and its hash."""
    rows = git.run_checked(local, repo, "ls-tree", "-r", "-z", commit).split("\0")
    return {path: about.split()[2] for about, _, path in (row.partition("\t") for row in rows) if path}


def _hash_current_files(local: Host, repo: str) -> dict[str, str]:
    """Each file in a work tree that git does not ignore, and its hash; nothing is written."""
    rows = git.run_checked(local, repo, "ls-files", "-s", "-z").split("\0")
    found = {path: about.split()[1] for about, _, path in (row.partition("\t") for row in rows) if path}
    named = git.run_checked(local, repo, "ls-files", "-mo", "--exclude-standard", "-z").split("\0")
    for path in filter(None, named):
        try:
            with open(os.path.join(repo, path), "rb") as file:
                found[path] = hashlib.sha256(file.read()).hexdigest()
        except OSError:
            found.pop(path, None)
    return found
