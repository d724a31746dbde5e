"""Finds the changes that work together: runs the branch and excludes each change that breaks a test, with the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from mngr.base.model import Struct
from mngr.base.size_format import format_count
from mngr.host.protocol import Host
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.find_changes import list_dependents
from mngr.tmr.changes.integration_record import Exclusion
from mngr.tmr.integrate.bisect import Bisection, list_claimed_tests
from mngr.tmr.integrate.commit_checks import CommitChecks
from mngr.tmr.integrate.compose import ChangeConflict, ComposedBranch, compose_branch
from mngr.tmr.integrate.suite import CHECK_PREFIX, WHOLE_SUITE, Suite, SuiteResult
from mngr.tmr.prepare.root_causes import remove_volatile_parts

ProgressListener = Callable[[str], None]


_LONG_SUITE_SECONDS = 30.0  # seconds from which on the affected tests run before the whole suite


class BaseResults(Struct):
    """The results of the tests on the base, as far as they are known."""

    verdicts: dict[str, str]  # pass | fail | flaky | skip
    imported_files: dict[str, list[str] | None] = {}  # the files that each test imports; None: unknown


class TrialResult(Struct):
    """A tested branch, and what is not in it."""

    composed: ComposedBranch
    chosen: list[Change]
    exclusions: list[Exclusion]
    regressions: dict[str, str]  # failures for which no change is responsible
    still_failing: list[str]  # tests that failed on the base and still fail
    failure_reasons: dict[str, str]  # why each test in `still_failing` fails
    flaky: list[str]
    partial_commits: int  # commits at which not all affected tests were run


class BranchTrial:
    """Tests branches. The suite caches all results by tree."""

    def __init__(
        self, local: Host, repo: str, base: str, suite: Suite, base_results: BaseResults, report: ProgressListener
    ) -> None:
        self._local = local
        self._repo = repo
        self._base = base
        self._suite = suite
        self._report = report
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
            if not new_exclusions:
                failing_commit = self._commit_checks.find_failing_commit(composed, self._base)
                if failing_commit is None:
                    return self._make_result(composed, chosen, exclusions)
                if failing_commit.change not in moved_once:
                    moved_once.add(failing_commit.change)
                    chosen = _move_to_end(chosen, failing_commit.change)
                    continue
                new_exclusions = [failing_commit]
            for exclusion in new_exclusions:
                if exclusion.proof is not None:
                    self._report(f"excluded {exclusion.change}: {exclusion.reason}")
            new_exclusions += exclude_dependents(chosen, {exclusion.change for exclusion in new_exclusions})
            exclusions += new_exclusions
            chosen = remove_excluded(chosen, new_exclusions)

    def list_failing_with(self, changes: Sequence[Change], tests: set[str]) -> set[str]:
        """Return those of the tests that fail on a branch of all these changes that merge."""
        head = compose_branch(self._local, self._repo, self._base, changes).head
        return set(self._suite.run_tests(head, tests).failures)

    def _make_result(self, composed: ComposedBranch, chosen: list[Change], exclusions: list[Exclusion]) -> TrialResult:
        red = self._find_failures(composed.head, chosen) if composed.commits else {}
        flaky = self.flaky | self._known_flaky - self._unexplained.keys()
        not_from_base = self._unexplained.keys() | flaky
        still_failing = sorted(test for test in red if test not in not_from_base and not test.startswith(CHECK_PREFIX))
        return TrialResult(
            composed=composed,
            chosen=chosen,
            exclusions=exclusions,
            regressions={test: why for test, why in red.items() if test in self._unexplained},
            still_failing=still_failing,
            failure_reasons={test: red[test] for test in still_failing},
            flaky=sorted(flaky),
            partial_commits=self._commit_checks.partial_commits,
        )

    def _find_failures(self, commit: str, chosen: Sequence[Change]) -> dict[str, str]:
        """Return all failures at a commit, including tests that disappeared although no change touched their file."""
        checks = self._suite.run_tests(commit, [CHECK_PREFIX + name for name in self._suite.checks])
        result = self._suite.run_all(commit)
        missing = self._list_missing_tests(result, chosen)
        return {**dict.fromkeys(missing, "pytest no longer runs it"), **result.failures, **checks.failures}

    def _list_missing_tests(self, result: SuiteResult, chosen: Sequence[Change]) -> list[str]:
        """Return the tests of the base that disappeared although no change touched their file."""
        if WHOLE_SUITE in result.outcomes:
            return []
        touched = {path for change in chosen for path in change.paths}
        explained_files = touched | result.outcomes.keys()
        missing = [test for test in self._base_results.verdicts if test not in result.outcomes]
        return [test for test in missing if test.partition("::")[0] not in explained_files]

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
            target = "the whole suite" if tests is None else format_count(len(tests), "test")
            self._report(f"running {target}; changes on the branch: {len(chosen)}")
            while new_failures := self._find_new_failures(composed, tests, chosen):
                exclusions = self._bisect_failures(chosen, new_failures)
                if exclusions:
                    return exclusions
        return []

    def _bisect_failures(self, chosen: Sequence[Change], failures: dict[str, str]) -> list[Exclusion]:
        """Return the exclusions for these failures.

        Flaky and unexplained tests are remembered and not bisected again.
        """
        exclusions: list[Exclusion] = []
        remaining = list(chosen)
        for test, why in failures.items():
            alone = why != _ONLY_IN_SUITE
            if exclusions:
                head = compose_branch(self._local, self._repo, self._base, remaining).head
                if not self._bisection.is_red(head, test, alone=alone):
                    continue
            culprits = self._bisection.find_breaking_changes(test, remaining, alone=alone)
            if culprits is None:
                self._unexplained |= self._similar_failures[test]
                continue
            if not culprits:
                self.flaky.add(test)
                continue
            exclusions += culprits
            exclusions += exclude_dependents(remaining, {exclusion.change for exclusion in culprits})
            remaining = remove_excluded(remaining, exclusions)
        return exclusions

    def _find_new_failures(
        self, composed: ComposedBranch, tests: Sequence[str] | None, chosen: Sequence[Change]
    ) -> dict[str, str]:
        """Return the failures that need an explanation. The same tests run first the next time."""
        head = composed.head
        failures = self._find_failures(head, chosen) if tests is None else self._suite.run_tests(head, tests).failures
        new_failures = self._select_new_failures(head, failures, chosen)
        self._last_failures = sorted(failures.keys() - {WHOLE_SUITE}) if new_failures else []
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
        first_failures: dict[str, str] = {}
        other_failures: dict[str, str] = {}
        self._similar_failures = {}
        for test, why in sorted(failures.items()):
            if test not in claimed_tests and self._is_red_on_base(test, base_outcomes):
                continue
            similar = by_message.setdefault(remove_volatile_parts(why), {})
            (other_failures if similar else first_failures)[test] = why
            similar[test] = why
            self._similar_failures[test] = similar
        confirmed = self._confirm_failures(head, first_failures, claimed_tests)
        return confirmed or self._confirm_failures(head, other_failures, claimed_tests)

    def _confirm_failures(self, head: str, failures: dict[str, str], claimed_tests: set[str]) -> dict[str, str]:
        """Return the tests that fail every time, alone or only within the whole suite."""
        alone = set(self._suite.run_tests(head, failures).failures)
        self.flaky |= alone - self._suite.list_stable(head, alone, red=True)
        confirmed = {test: failures[test] for test in alone - self.flaky}
        suite_only = self._select_suite_only(failures.keys() - alone, claimed_tests)
        failed_again: set[str] = set()
        if suite_only:
            result = self._suite.rerun_all(head)
            missing = self._base_results.verdicts.keys() - result.outcomes.keys()
            failed_again = suite_only & (result.failures.keys() | missing)
            self.flaky |= suite_only - failed_again
        return dict(sorted({**confirmed, **dict.fromkeys(failed_again, _ONLY_IN_SUITE)}.items()))

    def _select_suite_only(self, tests: set[str], claimed_tests: set[str]) -> set[str]:
        """Return those tests that are claimed to pass, or that do not fail in the whole suite on the base."""
        unclaimed = tests - claimed_tests
        if not unclaimed:
            return tests
        return tests - (unclaimed & self._suite.run_all(self._base).failures.keys())

    def _is_red_on_base(self, test: str, outcomes: dict[str, str]) -> bool:
        """True when the test fails on the base, by the baseline or by these outcomes. A new test does not."""
        verdict = self._base_results.verdicts.get(test)
        if verdict is not None:
            return verdict == "fail"
        return outcomes.get(test) not in ("pass", "skip", "missing", None)


_ONLY_IN_SUITE = "it fails only together with other tests"


def remove_excluded(changes: Iterable[Change], exclusions: Iterable[Exclusion]) -> list[Change]:
    """Return the changes that are not excluded."""
    excluded_ids = {exclusion.change for exclusion in exclusions}
    return [change for change in changes if change.id not in excluded_ids]


def _move_to_end(changes: Sequence[Change], name: str) -> list[Change]:
    """Return the changes with one of them, and those that need it, at the end."""
    moved = {name, *(change.id for change, _ in list_dependents(changes, {name}))}
    return sorted(changes, key=lambda change: change.id in moved)


def _make_conflict_exclusion(conflict: ChangeConflict) -> Exclusion:
    return Exclusion(
        change=conflict.change,
        why="conflict" if conflict.paths else "needs",
        reason=conflict.reason,
        others=conflict.others,
    )


def exclude_dependents(chosen: Sequence[Change], excluded: set[str]) -> list[Exclusion]:
    """Return exclusions for the changes that need an excluded one."""
    return [
        Exclusion(change=change.id, why="needs", reason=f"{why}, which is excluded", others=change.needs)
        for change, why in list_dependents(chosen, excluded)
    ]
