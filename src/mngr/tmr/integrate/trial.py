"""Finds the changes that work together: runs the branch and excludes each change that breaks a test, with the proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mngr.base.model import Struct
from mngr.host.protocol import Host
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.selection import list_dependents
from mngr.tmr.integrate.bisect import Bisection, list_claimed_tests
from mngr.tmr.integrate.commit_checks import CommitChecks
from mngr.tmr.integrate.compose import ComposedBranch, compose_branch
from mngr.tmr.integrate.suite import CHECK_PREFIX, WHOLE_SUITE, Suite, SuiteResult
from mngr.tmr.prepare.root_causes import remove_volatile_parts

ProgressListener = Callable[[str], None]


_LONG_SUITE_SECONDS = 30.0  # seconds from which on the affected tests run before the whole suite


class BaseResults(Struct):
    """The results of the tests on the base, as far as they are known."""

    verdicts: dict[str, str]  # pass | fail | flaky | skip
    imported_files: dict[str, list[str] | None] = {}  # the files that each test imports; None: unknown


class Exclusion(Struct):
    """A change that is not in the branch, and the reason."""

    change: str
    why: str  # conflict | breaks | needs | redder | wish
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class TrialResult(Struct):
    """A tested branch, and what is not in it."""

    composed: ComposedBranch
    chosen: list[Change]
    exclusions: list[Exclusion]
    red: dict[str, str]  # failures for which no change is responsible
    red_before: list[str]  # tests that failed on the base and still fail
    flaky: list[str]
    partial_commits: int  # commits at which not all affected tests were run


class BranchTrial:
    """Tests branches. The suite caches all results by tree."""

    def __init__(
        self, local: Host, repo: str, base: str, suite: Suite, base_results: BaseResults, report: ProgressListener
    ) -> None:
        self._local, self._repo, self._base, self._suite, self._say = local, repo, base, suite, report
        self._base_results = base_results
        self._known_flaky = {test for test, verdict in base_results.verdicts.items() if verdict == "flaky"}
        self.flaky: set[str] = set()  # tests that proved to be flaky in this trial
        self._bisection = Bisection(local, repo, base, suite, base_results.verdicts, base_results.imported_files)
        self._commit_checks = CommitChecks(suite, base_results.imported_files)
        self._unexplained: dict[str, str] = {}
        self._similar_failures: dict[str, dict[str, str]] = {}  # test -> all failures with the same message
        self._last_failures: list[str] = []  # failures of the last run of the whole suite

    def choose_changes(self, changes: Sequence[Change]) -> TrialResult:
        """Return a branch of as many changes as possible that breaks no test, at its head and at each commit."""
        chosen = list(changes)
        exclusions: list[Exclusion] = []
        moved_once: set[str] = set()  # changes that were moved to the end, after those that they depend on
        while True:
            composed = compose_branch(self._local, self._repo, self._base, chosen)
            new_exclusions = [_make_conflict_exclusion(row) for row in composed.conflicts]
            if not new_exclusions:
                new_exclusions = self._find_breaking_changes(composed, chosen)
            if (
                not new_exclusions
                and (failing_commit := self._commit_checks.find_failing_commit(composed, self._base)) is not None
            ):
                if failing_commit.change not in moved_once:
                    moved_once.add(failing_commit.change)
                    moved = {
                        failing_commit.change,
                        *(change.id for change, _ in list_dependents(chosen, {failing_commit.change})),
                    }
                    chosen.sort(key=lambda change: change.id in moved)
                    continue
                new_exclusions = [Exclusion(**failing_commit.to_dict())]
            if not new_exclusions:
                return self._make_result(composed, chosen, exclusions)
            for exclusion in new_exclusions:
                if exclusion.proof is not None:
                    self._say(f"{exclusion.change} is put aside: {exclusion.reason}")
            new_exclusions += exclude_dependents(chosen, {exclusion.change for exclusion in new_exclusions})
            exclusions += new_exclusions
            chosen = [
                change for change in chosen if change.id not in {exclusion.change for exclusion in new_exclusions}
            ]

    def list_failing_with(self, changes: Sequence[Change], tests: set[str]) -> set[str]:
        """Return those of the tests that fail on a branch of all these changes that merge."""
        return set(
            self._suite.run_tests(compose_branch(self._local, self._repo, self._base, changes).head, tests).failures
        )

    def _make_result(self, composed: ComposedBranch, chosen: list[Change], exclusions: list[Exclusion]) -> TrialResult:
        red = self._find_failures(composed.head, chosen) if composed.commits else {}
        flaky = self.flaky | self._known_flaky - self._unexplained.keys()
        not_from_base = self._unexplained.keys() | flaky
        red_before = sorted(test for test in red if test not in not_from_base and not test.startswith(CHECK_PREFIX))
        return TrialResult(
            composed=composed, chosen=chosen, exclusions=exclusions, red={test: why for test, why in red.items() if test in self._unexplained},
            red_before=red_before, flaky=sorted(flaky), partial_commits=self._commit_checks.partial_commits,
        )  # fmt: skip

    def _find_failures(self, commit: str, chosen: Sequence[Change]) -> dict[str, str]:
        """Return all failures at a commit, including tests that disappeared although no change touched their file."""
        checks = self._suite.run_tests(commit, [CHECK_PREFIX + name for name in self._suite.checks])
        result = self._suite.run_all(commit)
        touched = {path for change in chosen for path in change.paths} if WHOLE_SUITE not in result.outcomes else None
        missing = {
            test: "it is not run any more" for test in self._base_results.verdicts
            if touched is not None and test not in result.outcomes and test.partition("::")[0] not in touched | result.outcomes.keys()
        }  # fmt: skip
        return {**missing, **result.failures, **checks.failures}

    # New failures

    def _find_breaking_changes(self, composed: ComposedBranch, chosen: Sequence[Change]) -> list[Exclusion]:
        """Return the exclusions that repair the branch; empty if nothing new fails or no change is responsible."""
        if not composed.commits:
            return []
        affected = None
        if self._suite.expected_seconds > _LONG_SUITE_SECONDS:
            affected = self._commit_checks.find_affected_tests([path for change in chosen for path in change.paths])
        # Run the last failures first, then the affected tests, then all tests.
        for tests in (self._last_failures, affected or [], None):
            if tests is not None and not tests:
                continue
            self._say(f"{'the whole suite' if tests is None else f'tests: {len(tests)}'}, changes: {len(chosen)}")
            while new_failures := self._find_new_failures(composed, tests, chosen):
                if exclusions := self._bisect_failures(composed, chosen, new_failures):
                    return exclusions
        return []

    def _bisect_failures(
        self, composed: ComposedBranch, chosen: Sequence[Change], failures: dict[str, str]
    ) -> list[Exclusion]:
        """Return the exclusions for these failures.

        Flaky and unexplained tests are remembered and not bisected again.
        """
        exclusions: list[Exclusion] = []
        remaining = list(chosen)
        for test, why in failures.items():
            composed = compose_branch(self._local, self._repo, self._base, remaining) if exclusions else composed
            if exclusions and not self._bisection.is_red(composed.head, test, alone=why != _ONLY_IN_SUITE):
                continue
            culprits = self._bisection.find_culprits(test, remaining, alone=why != _ONLY_IN_SUITE)
            if culprits == []:
                self.flaky.add(test)
                continue
            if culprits is None:
                self._unexplained |= self._similar_failures[test]
                continue
            new = [Exclusion(**row) for row in culprits]
            new += exclude_dependents(remaining, {exclusion.change for exclusion in new})
            exclusions += new
            remaining = [
                change for change in remaining if change.id not in {exclusion.change for exclusion in exclusions}
            ]
        return exclusions

    def _find_new_failures(
        self, composed: ComposedBranch, tests: Sequence[str] | None, chosen: Sequence[Change]
    ) -> dict[str, str]:
        """Return the failures that need an explanation. The same tests run first the next time."""
        head = composed.head
        failures = self._find_failures(head, chosen) if tests is None else self._suite.run_tests(head, tests).failures
        new_failures = self._select_new_failures(head, failures, chosen)
        self._last_failures = sorted(test for test in failures if test != WHOLE_SUITE) if new_failures else []
        return new_failures

    def _select_new_failures(self, head: str, failures: dict[str, str], chosen: Sequence[Change]) -> dict[str, str]:
        """Return the stable failures of tests that passed before or are claimed to pass.

        Of failures with the same message only one is confirmed first.
        """
        claimed_tests = {test for change in chosen for test in list_claimed_tests(change)}
        known = self.flaky | self._unexplained.keys() | (self._known_flaky - claimed_tests)
        failures = {test: why for test, why in failures.items() if test not in known}
        unknown = [test for test in failures if test not in claimed_tests and test not in self._base_results.verdicts]
        base_outcomes = self._suite.run_tests(self._base, unknown).outcomes
        by_message: dict[str, dict[str, str]] = {}
        for test, why in sorted(failures.items()):
            if test in claimed_tests or not self._is_red_on_base(test, base_outcomes):
                by_message.setdefault(remove_volatile_parts(why), {})[test] = why
        firsts = {next(iter(similar)): next(iter(similar.values())) for similar in by_message.values()}
        others = {test: why for similar in by_message.values() for test, why in similar.items() if test not in firsts}
        self._similar_failures = {test: similar for similar in by_message.values() for test in similar}
        return self._confirm_failures(head, firsts, claimed_tests) or self._confirm_failures(
            head, others, claimed_tests
        )

    def _confirm_failures(self, head: str, failures: dict[str, str], claimed_tests: set[str]) -> dict[str, str]:
        """Return the tests that fail every time, alone or only within the whole suite."""
        alone = set(self._suite.run_tests(head, failures).failures)
        self.flaky |= alone - self._suite.list_stable(head, alone, red=True)
        confirmed = {test: why for test, why in failures.items() if test in alone - self.flaky}
        suite_only = {
            test for test in failures if test not in alone and (test in claimed_tests or test not in self._suite.run_all(self._base).failures)
        }  # fmt: skip
        result = self._suite.rerun_all(head) if suite_only else SuiteResult(outcomes={})
        missing = self._base_results.verdicts.keys() - result.outcomes.keys()
        failed_again = suite_only & (result.failures.keys() | missing)
        self.flaky |= suite_only - failed_again
        return dict(sorted({**confirmed, **dict.fromkeys(failed_again, _ONLY_IN_SUITE)}.items()))

    def _is_red_on_base(self, test: str, outcomes: dict[str, str]) -> bool:
        """True when the test fails on the base, by the baseline or by these outcomes. A new test does not."""
        verdict = self._base_results.verdicts.get(test)
        if verdict is not None:
            return verdict == "fail"
        return outcomes.get(test) not in ("pass", "skip", "missing", None)


_ONLY_IN_SUITE = "only beside others"


def _make_conflict_exclusion(conflict: Any) -> Exclusion:
    return Exclusion(
        change=conflict.change,
        why="conflict" if conflict.paths else "needs",
        reason=conflict.reason,
        others=conflict.others,
    )


def exclude_dependents(chosen: Sequence[Change], excluded: set[str]) -> list[Exclusion]:
    """Return exclusions for the changes that need an excluded one."""
    return [
        Exclusion(change=change.id, why="needs", reason=f"{why}, which is not there", others=change.needs)
        for change, why in list_dependents(chosen, excluded)
    ]
