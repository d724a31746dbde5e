"""Checks each commit of a branch: finds a commit that breaks a test which passed before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.integrate.compose import ComposedBranch
from mngr.tmr.integrate.suite import Suite

# Limit of test runs, as a multiple of the number of tests. Beyond it, a commit is checked only with the tests whose
# imports are known.
_MAX_RUN_FACTOR = 4


class FailingCommit(Struct):
    """A commit that breaks a test, although a later commit repairs it."""

    change: str
    why: str = "redder"
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class CommitChecks:
    """Checks the commits of composed branches one by one."""

    def __init__(self, suite: Suite, imported_files: Mapping[str, list[str] | None]) -> None:
        self._suite, self._imported_files = suite, imported_files
        self.partial_commits = 0
        self._passed_heads: set[str] = set()  # heads of branches that passed the check

    def find_affected_tests(self, paths: Iterable[str]) -> list[str] | None:
        """Return the tests that these files may affect, or None when that may be most tests."""
        changed = set(paths)
        if not self._imported_files or not all(path.endswith(".py") for path in changed if not _is_text_file(path)):
            return None
        affected = [
            test for test, files in self._imported_files.items() if files is None or changed.intersection(files)
        ]
        return sorted(affected) if len(affected) * 2 <= len(self._imported_files) else None

    def find_failing_commit(self, composed: ComposedBranch, base: str) -> FailingCommit | None:
        """Return the first fix after which a test fails that passed before, or None.

        The last fix is not checked, because the whole branch was run.
        """
        if composed.head in self._passed_heads:
            return None
        self.partial_commits = 0
        rows = [row for row in composed.commits if row.kind == "fix"][:-1]
        parents = {row.commit: parent for row, parent in zip(composed.commits, [base, *(row.commit for row in composed.commits)], strict=False)}  # fmt: skip
        pairs = [pair for row in rows for pair in ((parents[row.commit], row.commit), (row.commit, composed.head))]
        paths = self._suite.list_changed_paths(pairs)
        for number, row in enumerate(rows):
            targets = self._select_tests(*paths[2 * number : 2 * number + 2])
            files = {test: self._imported_files[test] for test in targets}
            failures = self._suite.run_by_imports(row.commit, files).failures
            failing_before = self._suite.run_by_imports(
                parents[row.commit], {test: files[test] for test in failures}
            ).failures
            for test, why in failures.items():
                if test not in failing_before and self._suite.list_stable(row.commit, [test], red=True):
                    reason = f"it leaves {test} red until another fix is there: {why}"
                    proof = {
                        "test": test,
                        "before": "pass",
                        "after": "fail",
                        "why": why,
                        "commit": row.commit,
                    }
                    return FailingCommit(change=row.changes[0], reason=reason, proof=proof)
        self._passed_heads.add(composed.head)
        return None

    def _select_tests(self, here: set[str], later: set[str]) -> list[str]:
        """Return the tests that both the commit and the later commits may affect."""
        if any(not path.endswith(".py") and not _is_text_file(path) for path in here | later):
            affected = list(self._imported_files)
        else:
            affected = [
                test
                for test, files in self._imported_files.items()
                if files is None or not (here.isdisjoint(files) or later.isdisjoint(files))
            ]
        with_known_imports = [test for test in affected if self._imported_files[test] is not None]
        if len(with_known_imports) == len(affected) or self._suite.counts["tests"] + len(
            affected
        ) <= _MAX_RUN_FACTOR * len(self._imported_files):
            return affected
        self.partial_commits += 1
        return with_known_imports


def _is_text_file(path: str) -> bool:
    return path.endswith((".md", ".rst", ".txt"))
