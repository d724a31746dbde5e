"""Commit by commit: whether one leaves tests redder than they were before it, by the tests that may depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mngr.base.model import Record
from mngr.tmr.integrate.compose import Composed
from mngr.tmr.integrate.suite import Suite

_MOST = 4  # times the number of tests that may be run before commits are tried with the tests that are known to need them only


class Step(Record):
    """A commit that makes something red, though a later one mends it."""

    change: str
    why: str = "redder"
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class Steps:
    """The commits of branches, one by one."""

    def __init__(self, suite: Suite, loaded: Mapping[str, list[str] | None]) -> None:
        self._suite, self._loaded = suite, loaded
        self.partly = 0
        self._fine: set[str] = set()  # heads of branches that were looked at

    def affected(self, paths: Iterable[str]) -> list[str] | None:
        """The tests that may end otherwise when these files change; None when that may be most of them."""
        some = set(paths)
        if not self._loaded or not all(path.endswith(".py") for path in some if not _is_text(path)):
            return None
        found = [test for test, files in self._loaded.items() if files is None or some.intersection(files)]
        return sorted(found) if len(found) * 2 <= len(self._loaded) else None

    def redder(self, composed: Composed, base: str) -> Step | None:
        """The first fix after which something is red that was not so before; the last commit is the branch itself, which was run."""
        if composed.head in self._fine:
            return None
        self.partly = 0
        rows = [row for row in composed.commits if row.kind == "fix"][:-1]
        below = {row.commit: under for row, under in zip(composed.commits, [base, *(row.commit for row in composed.commits)], strict=False)}  # fmt: skip
        pairs = [
            pair for row in rows for pair in ((below[row.commit], row.commit), (row.commit, composed.head))
        ]
        paths = self._suite.paths(pairs)
        for number, row in enumerate(rows):
            targets = self._targets(*paths[2 * number : 2 * number + 2])
            files = {test: self._loaded[test] for test in targets}
            red = self._suite.by_files(row.commit, files).red
            before = self._suite.by_files(below[row.commit], {test: files[test] for test in red}).red
            for test, why in red.items():
                if test not in before and self._suite.steady(row.commit, [test], red=True):
                    reason = f"it leaves {test} red until another fix is there: {why}"
                    proof = {
                        "test": test,
                        "before": "pass",
                        "after": "fail",
                        "why": why,
                        "commit": row.commit,
                    }
                    return Step(change=row.changes[0], reason=reason, proof=proof)
        self._fine.add(composed.head)
        return None

    def _targets(self, here: set[str], later: set[str]) -> list[str]:
        """The tests that may end otherwise than before a commit, and otherwise than at the head, where they were run."""
        if any(not path.endswith(".py") and not _is_text(path) for path in here | later):
            may = list(self._loaded)
        else:
            may = [
                test
                for test, files in self._loaded.items()
                if files is None or not (here.isdisjoint(files) or later.isdisjoint(files))
            ]
        known = [test for test in may if self._loaded[test] is not None]
        if len(known) == len(may) or self._suite.counts["tests"] + len(may) <= _MOST * len(self._loaded):
            return may
        self.partly += 1
        return known


def _is_text(path: str) -> bool:
    return path.endswith((".md", ".rst", ".txt"))
