"""Keeps the lines that tests ran in earlier baselines, and finds the tests that no change since then can affect."""

from __future__ import annotations

from mngr.base.errors import MngrError
from mngr.host.protocol import Host
from mngr.tmr.commits.trees import diff_trees, list_trees, read_blobs, read_files
from mngr.tmr.prepare.lines_by_test import AffectedTests, FileChange
from mngr.tmr.result_cache import ResultCache, get_cache_dir
from mngr.tmr.runners.test_run import SuiteLines

_FORMAT = 2  # increased when the same lines would be recorded differently
_MAX_FILE_BYTES = 1 << 22  # of a source file


class LineSelection:
    """The recorded lines of a project, one record per tree, in mngr's home."""

    def __init__(self, local: Host, root: str, repo: str, base: str) -> None:
        self._local, self._repo, self._base = local, repo, base
        self._records = ResultCache(get_cache_dir(local.home, root), "lines")
        self._unaffected: dict[str, set[str]] = {}

    def save(self, lines: SuiteLines) -> None:
        """Save the lines that tests ran on the base, beside those of other tests."""
        key = self._build_key(self._base)
        known = self._records.find_struct(key, SuiteLines)
        self._records.put(key, lines if known is None else known.merge(lines))

    def is_unaffected(self, test: str, commit: str) -> bool:
        """True when nothing that the test ran at the commit differs on the base. False when mngr does not know it."""
        if not commit:
            return False
        if commit not in self._unaffected:
            self._unaffected[commit] = self._list_unaffected(commit)
        return test in self._unaffected[commit]

    def _list_unaffected(self, commit: str) -> set[str]:
        try:
            lines = self._records.find_struct(self._build_key(commit), SuiteLines)
            if lines is None:
                return set()
            changes = self._list_changes(commit)
            paths = {
                *lines.modules.values(),
                *lines.outside,
                *(path for files in lines.tests.values() for path in files),
            }
            files = read_files(self._local, self._repo, commit, sorted(paths), _MAX_FILE_BYTES)
        except MngrError:
            return set()  # the repository no longer has the commit
        sources = {path: data.decode("utf-8", "replace") for path, data in files.items()}
        affected = AffectedTests(lines, sources).find(changes)
        return set() if affected is None else lines.tests.keys() - affected

    def _build_key(self, commit: str) -> list[object]:
        return [_FORMAT, str(list_trees(self._local, self._repo, [commit])[0])]

    def _list_changes(self, commit: str) -> list[FileChange]:
        """Return the files that differ between the commit and the base."""
        trees = [str(tree) for tree in list_trees(self._local, self._repo, [commit, self._base])]
        (rows,) = diff_trees(self._local, self._repo, [(trees[0], trees[1])])
        blobs = {row.old for row in rows if row.status == "M"} | {row.new for row in rows if row.status == "M"}
        texts = read_blobs(self._local, self._repo, sorted(blobs), _MAX_FILE_BYTES)
        return [
            FileChange(
                path=row.path,
                old=_decode_source(texts.get(row.old)) if row.status == "M" else None,
                new=_decode_source(texts.get(row.new)) if row.status == "M" else None,
            )
            for row in rows
        ]


def _decode_source(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
