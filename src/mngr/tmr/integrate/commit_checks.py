"""Checks each commit of a branch: finds a commit that breaks a test which passed before it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from mngr.tmr.changes.integration_record import Exclusion, FailureProof
from mngr.tmr.integrate.compose import ComposedBranch
from mngr.tmr.integrate.suite import Suite

# Limit of test runs, as a multiple of the number of tests. Beyond it, a commit is checked only with the tests whose
# imports are known.
_MAX_RUN_FACTOR = 4


class CommitChecks:
    """Checks the commits of composed branches one by one."""

    def __init__(self, suite: Suite, imported_files: Mapping[str, list[str] | None]) -> None:
        self._suite, self._imported_files = suite, imported_files
        self.partial_commits = 0
        self._passed_heads: set[str] = set()  # heads of branches that passed the check

    def find_affected_tests(self, paths: Iterable[str]) -> list[str] | None:
        """Return the tests that these files may affect, or None when that may be most tests."""
        changed = set(paths)
        if not self._imported_files or _has_unknown_effects(changed):
            return None
        affected = [
            test for test, files in self._imported_files.items() if files is None or not changed.isdisjoint(files)
        ]
        if len(affected) * 2 > len(self._imported_files):
            return None
        return sorted(affected)

    def find_failing_commit(self, composed: ComposedBranch, base: str) -> Exclusion | None:
        """Return an exclusion for the first fix after which a test fails that passed before, or None.

        The last fix is not checked, because the whole branch was run.
        """
        if composed.head in self._passed_heads:
            return None
        self.partial_commits = 0
        rows = [row for row in composed.commits if row.kind == "fix"][:-1]
        chain = [base, *(row.commit for row in composed.commits)]
        parents = {commit: parent for parent, commit in itertools.pairwise(chain)}
        paths_here = self._suite.list_changed_paths([(parents[row.commit], row.commit) for row in rows])
        paths_later = self._suite.list_changed_paths([(row.commit, composed.head) for row in rows])
        for row, here, later in zip(rows, paths_here, paths_later, strict=True):
            tests = self._select_tests(here, later)
            proof = self._find_new_failure(parents[row.commit], row.commit, tests)
            if proof is not None:
                reason = f"{proof.test} fails at its commit, until a later fix is applied: {proof.why}"
                return Exclusion(change=row.changes[0], why="more_failures", reason=reason, proof=proof)
        self._passed_heads.add(composed.head)
        return None

    def _find_new_failure(self, parent: str, commit: str, tests: Iterable[str]) -> FailureProof | None:
        """Return the first stable failure at a commit of a test that passes at the parent, or None."""
        files = {test: self._imported_files[test] for test in tests}
        failures = self._suite.run_by_imports(commit, files).failures
        failing_before = self._suite.run_by_imports(parent, {test: files[test] for test in failures}).failures
        for test, why in failures.items():
            if test not in failing_before and self._suite.list_stable(commit, [test], red=True):
                return FailureProof(test=test, before="pass", after="fail", why=why, commit=commit)
        return None

    def _select_tests(self, here: set[str], later: set[str]) -> list[str]:
        """Return the tests that both the commit and the later commits may affect."""
        affected = list(self._imported_files)
        if not _has_unknown_effects(here | later):
            affected = [test for test in affected if self._may_be_affected(test, here, later)]
        with_known_imports = [test for test in affected if self._imported_files[test] is not None]
        runs_after = self._suite.counts["tests"] + len(affected)
        max_runs = _MAX_RUN_FACTOR * len(self._imported_files)
        if len(with_known_imports) == len(affected) or runs_after <= max_runs:
            return affected
        self.partial_commits += 1
        return with_known_imports

    def _may_be_affected(self, test: str, here: set[str], later: set[str]) -> bool:
        """True when the test imports files of both sets, or when its imports are unknown."""
        files = self._imported_files[test]
        return files is None or not (here.isdisjoint(files) or later.isdisjoint(files))


def _has_unknown_effects(paths: Iterable[str]) -> bool:
    """True when one of the files is neither Python code nor text, so that any test may depend on it."""
    return not all(path.endswith((".py", ".md", ".rst", ".txt")) for path in paths)
