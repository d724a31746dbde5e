"""Which changes go together: the branch of all is run; where it is red, who made it so is put aside with the proof, until it is as green as the base."""

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


_LONG_SUITE_SECONDS = 30.0  # seconds of a suite that is worth a look at only what the changes touch, before all of it


class BaseResults(Struct):
    """How tests stand without any change, as far as that is known."""

    verdicts: dict[str, str]  # pass | fail | flaky | skip
    imported_files: dict[str, list[str] | None] = {}  # files that each imports; None: not known


class Exclusion(Struct):
    """A change that is not in the branch, and why."""

    change: str
    why: str  # conflict | breaks | needs | redder | wish
    reason: str
    others: list[str] = []
    proof: dict[str, Any] | None = None


class TrialResult(Struct):
    """A branch that was run, and what is not in it."""

    composed: ComposedBranch
    chosen: list[Change]
    exclusions: list[Exclusion]
    red: dict[str, str]  # for which nobody could be found
    red_before: list[str]  # as it was, and still is
    flaky: list[str]
    partial_commits: int  # commits at which not every test was run that may depend on them


class BranchTrial:
    """Runs branches; everything it asks of the suite is kept by tree."""

    def __init__(
        self, local: Host, repo: str, base: str, suite: Suite, before: BaseResults, say: ProgressListener
    ) -> None:
        self._local, self._repo, self._base, self._suite, self._say = local, repo, base, suite, say
        self._base_results = before
        self._known_flaky = {test for test, word in before.verdicts.items() if word == "flaky"}
        self.flaky: set[str] = set()  # seen here to come and go
        self._bisection = Bisection(local, repo, base, suite, before.verdicts, before.imported_files)
        self._commit_checks = CommitChecks(suite, before.imported_files)
        self._unexplained: dict[str, str] = {}
        self._similar_failures: dict[str, dict[str, str]] = {}  # what else is red with the same words, by test
        self._last_failures: list[str] = []  # red when the whole suite was last run

    def choose_changes(self, changes: Sequence[Change]) -> TrialResult:
        """As many of the changes as go together, no redder than the base and none of its commits redder than the one before."""
        chosen = list(changes)
        asides: list[Exclusion] = []
        late: set[str] = set()  # moved to the end, for others must come first
        while True:
            composed = compose_branch(self._local, self._repo, self._base, chosen)
            found = [_make_conflict_exclusion(row) for row in composed.conflicts]
            if not found:
                found = self._find_breaking_changes(composed, chosen)
            if not found and (step := self._commit_checks.find_failing_commit(composed, self._base)) is not None:
                if step.change not in late:
                    late.add(step.change)
                    moved = {
                        step.change,
                        *(change.id for change, _ in list_dependents(chosen, {step.change})),
                    }
                    chosen.sort(key=lambda change: change.id in moved)
                    continue
                found = [Exclusion(**step.to_dict())]
            if not found:
                return self._make_result(composed, chosen, asides)
            for one in found:
                if one.proof is not None:
                    self._say(f"{one.change} is put aside: {one.reason}")
            found += exclude_dependents(chosen, {one.change for one in found})
            asides += found
            chosen = [change for change in chosen if change.id not in {one.change for one in found}]

    def list_failing_with(self, changes: Sequence[Change], tests: set[str]) -> set[str]:
        """Of tests those that are red with all of these changes that merge."""
        return set(
            self._suite.run_tests(compose_branch(self._local, self._repo, self._base, changes).head, tests).failures
        )

    def _make_result(self, composed: ComposedBranch, chosen: list[Change], asides: list[Exclusion]) -> TrialResult:
        red = self._find_failures(composed.head, chosen) if composed.commits else {}
        flaky = self.flaky | self._known_flaky - self._unexplained.keys()
        known = self._unexplained.keys() | flaky
        still = sorted(test for test in red if test not in known and not test.startswith(CHECK_PREFIX))
        return TrialResult(
            composed=composed, chosen=chosen, exclusions=asides, red={test: why for test, why in red.items() if test in self._unexplained},
            red_before=still, flaky=sorted(flaky), partial_commits=self._commit_checks.partial_commits,
        )  # fmt: skip

    def _find_failures(self, commit: str, chosen: Sequence[Change]) -> dict[str, str]:
        """What is red at a commit of all that is asked of it; a test that is gone, though nobody worked on its file, is."""
        checks = self._suite.run_tests(commit, [CHECK_PREFIX + name for name in self._suite.checks])
        tried = self._suite.run_all(commit)
        files = {path for change in chosen for path in change.paths} if WHOLE_SUITE not in tried.outcomes else None
        gone = {
            test: "it is not run any more" for test in self._base_results.verdicts
            if files is not None and test not in tried.outcomes and test.partition("::")[0] not in files | tried.outcomes.keys()
        }  # fmt: skip
        return {**gone, **tried.failures, **checks.failures}

    # What is red and was not

    def _find_breaking_changes(self, composed: ComposedBranch, chosen: Sequence[Change]) -> list[Exclusion]:
        """Who made the branch red; none when it is as green as the base, or when nobody can be found."""
        if not composed.commits:
            return []
        few = None
        if self._suite.expected_seconds > _LONG_SUITE_SECONDS:
            few = self._commit_checks.find_affected_tests([path for change in chosen for path in change.paths])
        for some in (self._last_failures, few or [], None):  # red a moment ago; touched; all
            if some is not None and not some:
                continue
            self._say(f"{'the whole suite' if some is None else f'tests: {len(some)}'}, changes: {len(chosen)}")
            while bad := self._find_new_failures(composed, some, chosen):
                if found := self._bisect_failures(composed, chosen, bad):
                    return found
        return []

    def _bisect_failures(
        self, composed: ComposedBranch, chosen: Sequence[Change], bad: dict[str, str]
    ) -> list[Exclusion]:
        """Who is put aside for what is red; what comes and goes, or is nobody's, is not looked at again."""
        found: list[Exclusion] = []
        left = list(chosen)
        for test, why in bad.items():
            composed = compose_branch(self._local, self._repo, self._base, left) if found else composed
            if found and not self._bisection.is_red(composed.head, test, alone=why != _ONLY_IN_SUITE):
                continue
            culprit = self._bisection.find_culprits(test, left, alone=why != _ONLY_IN_SUITE)
            if culprit == []:
                self.flaky.add(test)
                continue
            if culprit is None:
                self._unexplained |= self._similar_failures[test]
                continue
            new = [Exclusion(**row) for row in culprit]
            new += exclude_dependents(left, {one.change for one in new})
            found += new
            left = [change for change in left if change.id not in {one.change for one in found}]
        return found

    def _find_new_failures(
        self, composed: ComposedBranch, some: Sequence[str] | None, chosen: Sequence[Change]
    ) -> dict[str, str]:
        """What of it somebody is to be found for; the same tests are looked at first the next time."""
        head = composed.head
        red = self._find_failures(head, chosen) if some is None else self._suite.run_tests(head, some).failures
        bad = self._select_new_failures(head, red, chosen)
        self._last_failures = sorted(test for test in red if test != WHOLE_SUITE) if bad else []
        return bad

    def _select_new_failures(self, head: str, red: dict[str, str], chosen: Sequence[Change]) -> dict[str, str]:
        """What is red, was green or is said to be green, and is red whenever we look: one of each kind, if that is so of one."""
        asked = {test for change in chosen for test in list_claimed_tests(change)}
        known = self.flaky | self._unexplained.keys() | (self._known_flaky - asked)
        red = {test: why for test, why in red.items() if test not in known}
        unknown = [test for test in red if test not in asked and test not in self._base_results.verdicts]
        was = self._suite.run_tests(self._base, unknown).outcomes
        kinds: dict[str, dict[str, str]] = {}
        for test, why in sorted(red.items()):
            if test in asked or not self._is_red_on_base(test, was):
                kinds.setdefault(remove_volatile_parts(why), {})[test] = why
        firsts = {next(iter(kind)): next(iter(kind.values())) for kind in kinds.values()}
        others = {test: why for kind in kinds.values() for test, why in kind.items() if test not in firsts}
        self._similar_failures = {test: kind for kind in kinds.values() for test in kind}
        return self._confirm_failures(head, firsts, asked) or self._confirm_failures(head, others, asked)

    def _confirm_failures(self, head: str, red: dict[str, str], asked: set[str]) -> dict[str, str]:
        """Those of them that are red whenever we look, or whenever all are run and were not so before."""
        alone = set(self._suite.run_tests(head, red).failures)
        self.flaky |= alone - self._suite.list_stable(head, alone, red=True)
        bad = {test: why for test, why in red.items() if test in alone - self.flaky}
        beside = {
            test for test in red if test not in alone and (test in asked or test not in self._suite.run_all(self._base).failures)
        }  # fmt: skip
        tried = self._suite.rerun_all(head) if beside else SuiteResult(outcomes={})
        gone = self._base_results.verdicts.keys() - tried.outcomes.keys()
        again = beside & (tried.failures.keys() | gone)
        self.flaky |= beside - again
        return dict(sorted({**bad, **dict.fromkeys(again, _ONLY_IN_SUITE)}.items()))

    def _is_red_on_base(self, test: str, outcomes: dict[str, str]) -> bool:
        """Whether it is red on the base: by the baseline, else by what was tried there; a new one was not."""
        known = self._base_results.verdicts.get(test)
        if known is not None:
            return known == "fail"
        return outcomes.get(test) not in ("pass", "skip", "missing", None)


_ONLY_IN_SUITE = "only beside others"


def _make_conflict_exclusion(row: Any) -> Exclusion:
    return Exclusion(change=row.change, why="conflict" if row.paths else "needs", reason=row.reason, others=row.others)


def exclude_dependents(chosen: Sequence[Change], gone: set[str]) -> list[Exclusion]:
    """What does not go without what is gone."""
    return [
        Exclusion(change=change.id, why="needs", reason=f"{why}, which is not there", others=change.needs)
        for change, why in list_dependents(chosen, gone)
    ]
