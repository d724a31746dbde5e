"""Commit by commit: whether one leaves tests redder than they were before it, by the tests that may depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mngr.base.model import Struct
from mngr.tmr.integrate.compose import ComposedBranch
from mngr.tmr.integrate.suite import Suite

_MAX_RUN_FACTOR = 4  # times the number of tests that may be run before commits are tried with the tests that are known to need them only


class FailingCommit(Struct):
    """A commit that makes something red, though a later one mends it."""

    change: str
    why: str = "redder"
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class CommitChecks:
    """The commits of branches, one by one."""

    def __init__(self, suite: Suite, loaded: Mapping[str, list[str] | None]) -> None:
        self._suite, self._imported_files = suite, loaded
        self.partial_commits = 0
        self._passed_heads: set[str] = set()  # heads of branches that were looked at

    def find_affected_tests(self, paths: Iterable[str]) -> list[str] | None:
        """The tests that may end otherwise when these files change; None when that may be most of them."""
        some = set(paths)
        if not self._imported_files or not all(path.endswith(".py") for path in some if not _is_text_file(path)):
            return None
        found = [test for test, files in self._imported_files.items() if files is None or some.intersection(files)]
        return sorted(found) if len(found) * 2 <= len(self._imported_files) else None

    def find_failing_commit(self, composed: ComposedBranch, base: str) -> FailingCommit | None:
        """The first fix after which something is red that was not so before; the last commit is the branch itself, which was run."""
        if composed.head in self._passed_heads:
            return None
        self.partial_commits = 0
        rows = [row for row in composed.commits if row.kind == "fix"][:-1]
        below = {row.commit: under for row, under in zip(composed.commits, [base, *(row.commit for row in composed.commits)], strict=False)}  # fmt: skip
        pairs = [pair for row in rows for pair in ((below[row.commit], row.commit), (row.commit, composed.head))]
        paths = self._suite.list_changed_paths(pairs)
        for number, row in enumerate(rows):
            targets = self._select_tests(*paths[2 * number : 2 * number + 2])
            files = {test: self._imported_files[test] for test in targets}
            red = self._suite.run_by_imports(row.commit, files).failures
            before = self._suite.run_by_imports(below[row.commit], {test: files[test] for test in red}).failures
            for test, why in red.items():
                if test not in before and self._suite.list_stable(row.commit, [test], red=True):
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
        """The tests that may end otherwise than before a commit, and otherwise than at the head, where they were run."""
        if any(not path.endswith(".py") and not _is_text_file(path) for path in here | later):
            may = list(self._imported_files)
        else:
            may = [
                test
                for test, files in self._imported_files.items()
                if files is None or not (here.isdisjoint(files) or later.isdisjoint(files))
            ]
        known = [test for test in may if self._imported_files[test] is not None]
        if len(known) == len(may) or self._suite.counts["tests"] + len(may) <= _MAX_RUN_FACTOR * len(
            self._imported_files
        ):
            return may
        self.partial_commits += 1
        return known


def _is_text_file(path: str) -> bool:
    return path.endswith((".md", ".rst", ".txt"))
