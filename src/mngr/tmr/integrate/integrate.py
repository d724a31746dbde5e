"""Builds one tested branch from the changes of a run, and names each excluded change with its reason.

A repeated integration is quick, because test results and verdicts are reused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from mngr.api import Fleet
from mngr.base import time_format
from mngr.base.errors import MngrError, NotFound, TimedOut
from mngr.base.lock import Lock
from mngr.host import git
from mngr.mapreduce.journal.agent_usage import AgentUsage
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.collect_changes import Change
from mngr.tmr.changes.current_changes import GatheredChanges, gather_changes
from mngr.tmr.changes.find_changes import (
    get_changes,
    list_dependents,
    list_shared_changes,
    make_exclusion_request,
    refresh_exclusion_request,
)
from mngr.tmr.changes.integration_record import (
    AdvisedOrder,
    AgentSummary,
    BranchCommit,
    CheckResult,
    ExcludedChange,
    Exclusion,
    ExclusionRequest,
    FailingTest,
    Integration,
    SuiteWork,
    find_integration,
    save_integration,
)
from mngr.tmr.changes.rejection_reasons import Rejection, RejectionFile, make_rejection
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.clean_room_and_agent_options import open_clean_rooms
from mngr.tmr.commits import clean_untrusted_text
from mngr.tmr.commits.trees import list_trees
from mngr.tmr.deliver.branch import (
    UserCommits,
    append_changes,
    fetch_commit,
    find_user_commits,
    get_branch_name,
    get_published_branch,
    move_branch,
    replay_commits,
)
from mngr.tmr.deliver.pull_request_text import read_body, write_pull_request
from mngr.tmr.integrate.agent_advice import Advisor, can_advise
from mngr.tmr.integrate.compose import list_ties, rank_changes
from mngr.tmr.integrate.earlier_verdicts import collect_verdicts
from mngr.tmr.integrate.exclude_breaking import BaseResults, BranchTrial, TrialResult, remove_excluded
from mngr.tmr.integrate.extra_checks import count_tests, make_full_receipts, make_lint_check, make_tutorial_check
from mngr.tmr.integrate.integrate_in_batches import BatchIntegration
from mngr.tmr.integrate.integration_request import IntegrateRequest
from mngr.tmr.integrate.resolve_conflicts import ConflictResolver
from mngr.tmr.integrate.suite import CHECK_PREFIX, Suite
from mngr.tmr.prepare.journal_facts import list_baseline_runs
from mngr.tmr.prepare.verdict_of_one_test import FAILS_ALONE, FAILS_IN_SUITE, combine_runs
from mngr.tmr.result_cache import ResultCache, get_cache_dir
from mngr.tmr.run_plan import RunPlan, load_plan

ProgressListener = Callable[[str], None]


_KINDS = {"impl": "fix", "tests": "test"}
_LOCK_TIMEOUT = 24 * 3600.0  # seconds to wait for another integration


def integrate(fleet: Fleet, run: RunDir, request: IntegrateRequest, report: ProgressListener) -> Integration:
    """Build the branch and everything that describes it. Raise MngrError."""
    with _lock_integration(run, report):
        return _Integration(fleet, run, request, report).run()


@contextmanager
def _lock_integration(run: RunDir, report: ProgressListener) -> Iterator[None]:
    """Hold the run's integration lock. If another integration is running, report that and wait for it."""
    path = os.path.join(run.path, "integrate.lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(Lock(path, timeout=1.0))
        except TimedOut:
            report(f"another integration of {run.name} is running; this one starts when it ends")
            stack.enter_context(Lock(path, timeout=_LOCK_TIMEOUT))
        yield


class _Integration:
    """One integration of a run."""

    def __init__(self, fleet: Fleet, run: RunDir, request: IntegrateRequest, report: ProgressListener) -> None:
        self._fleet = fleet
        self._run = run
        self._request = request
        self._report = report
        self._local = fleet.context.local_host
        self._plan: RunPlan = load_plan(run)
        self._began = time.monotonic()
        self._new_rejections: list[Rejection] = []  # rejections to save for later agents
        self._withdrawn_keys: set[str] = set()  # keys of changes whose exclusion was withdrawn
        self._last_integration = find_integration(run) or Integration()
        if request.is_full_verify:
            make_full_receipts(fleet, run, report)
        self._gathered: GatheredChanges = gather_changes(self._local, run)
        self._baseline = list_baseline_runs(self._gathered.state)
        self._baseline_verdicts = {test: _simplify_verdict(combine_runs(runs)) for test, runs in self._baseline.items()}
        self._advisor = None
        if request.agent is not None and can_advise(request.agent):
            self._advisor = Advisor(fleet, run, self._plan, request.agent, request.conflict_timeout, report)

    def run(self) -> Integration:
        """Select, merge, test and deliver the changes. Return the result."""
        onto = self._get_base()
        last = self._last_integration
        requests = self._list_exclusion_requests()
        only = self._request.only or last.only
        only = None if only == "all" else only
        ranked = self._rank_ties()
        chosen, exclusions = self._select_changes(requests, only, ranked)
        suite = self._make_suite(onto)
        try:
            trial = BranchTrial(self._local, self._run.repo, onto, suite, self._load_base_results(onto), self._report)
            batches = BatchIntegration(self._local, self._run.repo, onto, trial, last.earlier_verdicts, self._report)
            result = batches.integrate_changes(chosen, lambda: self._make_conflict_resolver(trial))
            integration = self._describe_branch(result.trial_result, [*exclusions, *result.exclusions], onto)
            integration = count_tests(suite, integration, self._baseline_verdicts, self._gathered.changes)
            integration = integration.replace(
                requests=requests,
                only=only,
                advised_orders=ranked,
                resolved=result.resolved,
                usage_by_purpose=self._sum_usage(result.usage),
                checks=self._run_other_checks(suite, integration.head, onto),
            )
            verdicts = collect_verdicts(last.earlier_verdicts, integration, self._gathered.changes)
            integration = self._deliver(integration.replace(earlier_verdicts=verdicts), suite)
        finally:
            suite.close()
        integration = self._save(integration, suite)
        self._save_rejections()
        write_pull_request(self._run, self._gathered.state, self._plan)
        summary = self._write_summary(integration)
        if summary is not None:
            integration = integration.replace(summary=summary, usage_by_purpose=self._sum_usage(result.usage))
            integration = self._save(integration, suite)
            write_pull_request(self._run, self._gathered.state, self._plan)
        return integration

    # Selecting

    def _get_base(self) -> str:
        """Return the commit below the branch: the one that was named, now or earlier, else the run's base."""
        base = self._gathered.base
        if self._request.onto is None:
            return self._last_integration.onto or base
        commit = git.find_commit(self._local, self._run.root, self._request.onto, git.SAFE_GIT)
        if commit is None:
            raise NotFound(
                f"--onto: there is no commit {self._request.onto!r}",
                "name a branch, a tag or a commit: mngr tmr integrate --onto main",
            )
        if commit != base:
            fetch_commit(self._local, self._run, "onto", commit)
        return commit

    def _list_exclusion_requests(self) -> list[ExclusionRequest]:
        """Return the exclusions that people asked for, now or earlier, without the withdrawn ones."""
        changes, commits = self._gathered.changes, self._last_integration.commits
        for target in self._request.withdrawn:
            self._withdrawn_keys |= {change.key for change in get_changes(changes, target, commits)}
        requests = []
        for request in self._last_integration.requests:
            refreshed = refresh_exclusion_request(request, changes)
            keys = [key for key in refreshed.keys if key not in self._withdrawn_keys]
            if keys:
                requests.append(refreshed.replace(keys=keys))
        requests += [self._make_exclusion_request(target) for target in self._request.without]
        ids = {change.key: change.id for change in changes}
        return [request.replace(changes=[ids[key] for key in request.keys if key in ids]) for request in requests]

    def _make_exclusion_request(self, target: str) -> ExclusionRequest:
        """Return the request for the user's word, and remember its reason for later agents."""
        changes = self._gathered.changes
        excluded = get_changes(changes, target, self._last_integration.commits)
        shared = list_shared_changes(changes, target)
        if shared:
            names = ", ".join(change.id for change in shared)
            self._report(f"these changes stay in the branch, because tasks other than {target} also made them: {names}")
        reason = clean_untrusted_text.clean_line(self._request.reason, 1000)
        if reason:
            self._new_rejections += [make_rejection(change, reason, self._run.name) for change in excluded]
        return make_exclusion_request(target, excluded, reason)

    def _list_cited_blocks(self) -> dict[str, list[str]]:
        """Return the tutorial blocks that the repaired tests cite, by test."""
        tests = {test for change in self._gathered.changes for test in change.fixed_tests}
        return list_cited_blocks(self._local, self._run.repo, self._gathered.base, tests)

    def _select_changes(
        self, requests: Sequence[ExclusionRequest], only: str | None, ranked: Sequence[AdvisedOrder]
    ) -> tuple[list[Change], list[Exclusion]]:
        """Return the changes to integrate, best first, and the exclusions that follow from requests."""
        advised = [key for order in ranked for key in order.keys]
        changes = rank_changes(self._gathered.changes, self._list_cited_blocks(), advised)
        requested = [*_exclude_requested(requests), *_exclude_other_kinds(changes, only)]
        exclusions: dict[str, Exclusion] = {}
        for exclusion in requested:
            exclusions.setdefault(exclusion.change, exclusion)
        for change, why in list_dependents(changes, exclusions):
            exclusions[change.id] = Exclusion(change=change.id, why="needs", reason=why, others=change.needs)
        return remove_excluded(changes, exclusions.values()), list(exclusions.values())

    def _save_rejections(self) -> None:
        """Save what people said about excluded changes, and delete withdrawn rejections."""
        if self._withdrawn_keys:
            RejectionFile(self._local.home, self._run.root).delete_rows(self._withdrawn_keys)
        if self._new_rejections:
            RejectionFile(self._local.home, self._run.root).add(self._new_rejections)

    # Advice

    def _rank_ties(self) -> list[AdvisedOrder]:
        """Return equally good fixes in the order that an agent advised, now or earlier, with its reasons."""
        groups = list_ties(self._gathered.changes, self._list_cited_blocks())
        if self._advisor is not None:
            return self._advisor.rank_groups(self._gathered.base, groups)
        tied_keys = [sorted(change.key for change in group) for group in groups]
        return [order for order in self._last_integration.advised_orders if sorted(order.keys) in tied_keys]

    def _write_summary(self, integration: Integration) -> AgentSummary | None:
        """Return an agent's summary of the branch, or the earlier one if the branch is the same."""
        if integration.verdict == "empty":
            return None
        if self._advisor is not None:
            return self._advisor.write_summary(self._gathered.base, integration.head, read_body(self._run))
        summary = self._last_integration.summary
        return summary if summary is not None and summary.head == integration.head else None

    def _make_conflict_resolver(self, trial: BranchTrial) -> ConflictResolver:
        return ConflictResolver(self._fleet, self._run, self._plan, trial, self._request, self._report)

    def _sum_usage(self, conflicts: AgentUsage) -> dict[str, AgentUsage]:
        """Return what this integration used, by purpose."""
        advice = AgentUsage() if self._advisor is None else self._advisor.usage
        usage_by_purpose = {"conflicts": conflicts, "advice": advice}
        return {purpose: usage for purpose, usage in usage_by_purpose.items() if usage != AgentUsage()}

    # Testing

    def _load_base_results(self, onto: str) -> BaseResults:
        """Return the results of the tests on the base, from the run's baseline if the base is the same."""
        return BaseResults(
            verdicts=self._baseline_verdicts if onto == self._gathered.base else {},
            imported_files={test: runs[0].loaded for test, runs in self._baseline.items()},
        )

    def _make_suite(self, onto: str) -> Suite:
        plan, context = self._plan, self._fleet.context
        clean_rooms = open_clean_rooms(self._fleet, self._run, plan, "integration", trusted_commit=onto)
        if plan.test_on:
            clean_rooms.remove_leftovers()
        seconds = {test: max(run.seconds for run in test_runs) for test, test_runs in self._baseline.items()}
        cache = ResultCache(get_cache_dir(self._local.home, self._run.root), "suite")
        suite = Suite(self._local, self._run.repo, plan, clean_rooms, cache, seconds)
        if command := self._get_lint_command():
            suite.add_check("lint", make_lint_check(command), [command])
        if plan.tutorial:
            tests = str(context.settings.get("tutorial.tests") or "tests")
            check = make_tutorial_check(self._local, self._run.repo, plan.tutorial, tests)
            suite.add_check("tutorial", check, [plan.tutorial, tests])
        return suite

    def _get_lint_command(self) -> str:
        return str(self._fleet.context.settings.get("project.lint") or "")

    def _run_other_checks(self, suite: Suite, head: str, onto: str) -> list[CheckResult]:
        """Run the other checks at the head. For a failing one, say whether it passed on the base."""
        return [self._run_other_check(suite, name, head, onto) for name in suite.checks]

    def _run_other_check(self, suite: Suite, name: str, head: str, onto: str) -> CheckResult:
        target = CHECK_PREFIX + name
        result = suite.run_tests(head, [target])
        is_passing = not result.failures
        return CheckResult(
            name=name,
            command="mngr tutorial check" if name == "tutorial" else self._get_lint_command(),
            ok=is_passing,
            was_ok=is_passing or not suite.run_tests(onto, [target]).failures,
            output=clean_untrusted_text.clean_body(result.reasons.get(target, "")),
        )

    # Reporting and delivering

    def _describe_branch(self, result: TrialResult, exclusions: Sequence[Exclusion], onto: str) -> Integration:
        """Return the part of the record that describes the branch and the excluded changes."""
        changes = {change.id: change for change in self._gathered.changes}
        composed = result.composed
        redundant_reason = "the branch already has the same edit"
        redundant = [Exclusion(change=name, why="already", reason=redundant_reason) for name in composed.redundant]
        all_exclusions = sorted([*exclusions, *redundant], key=lambda exclusion: (exclusion.why, exclusion.change))
        failing = {*result.regressions, *result.still_failing}
        # A branch without commits leaves every test as it was.
        reasons = result.failure_reasons if composed.commits else self._list_baseline_failures()
        passing_verdict = "green" if composed.commits else "empty"
        return Integration(
            run=self._run.name,
            at=time_format.format_timestamp(),
            branch=get_branch_name(self._run),
            base=self._gathered.base,
            onto=onto,
            onto_ref=self._request.onto or self._last_integration.onto_ref,
            head=composed.head,
            tree=composed.tree,
            verdict="red" if result.regressions else passing_verdict,
            commits=[_add_fixed_tests(commit, changes, failing) for commit in composed.commits],
            excluded=[_describe_exclusion(exclusion, changes[exclusion.change]) for exclusion in all_exclusions],
            regressions=[FailingTest(test=test, why=why) for test, why in sorted(result.regressions.items())],
            open=sum(task.state != "settled" for task in self._gathered.state.tasks.values()),
            still_failing=list(reasons),
            failure_reasons={test: clean_untrusted_text.clean_line(why) for test, why in reasons.items()},
            flaky=result.flaky,
            partly_tested=result.partial_commits,
            delivered=self._last_integration.delivered,
            pushed=self._last_integration.pushed,
            commits_by_people=self._last_integration.commits_by_people,
            isolation=self._last_integration.isolation,
            report_url=self._request.report_url or self._last_integration.report_url,
        )

    def _list_baseline_failures(self) -> dict[str, str]:
        """Return the tests that fail without any change, with the reason."""
        failing = sorted(test for test, verdict in self._baseline_verdicts.items() if verdict == "fail")
        return {test: next((run.why for run in self._baseline[test] if run.why), "") for test in failing}

    def _deliver(self, integration: Integration, suite: Suite) -> Integration:
        """Move the branch to the tested head and keep the commits that people made on it. Return the new record."""
        last = integration.delivered
        if integration.verdict == "red" or (integration.verdict == "empty" and last is None):
            return integration
        local, run = self._local, self._run
        user_commits = find_user_commits(local, run, last, integration.commits_by_people)
        kept_commits: list[str] = []
        if user_commits is not None:
            kept_commits = replay_commits(local, run.repo, integration.head, user_commits.commits)
        head = kept_commits[-1] if kept_commits else integration.head
        if self._request.is_append_only and last is not None:
            head = self._append_to_published(integration, head, user_commits)
            kept_commits = user_commits.commits if user_commits is not None else []
        if user_commits is not None:
            self._check_user_commits(integration, head, suite)
        move_branch(local, run, head, user_commits.tip if user_commits is not None else last)
        # If mngr is killed after this, the report already names the branch's real position.
        return self._save(integration.replace(delivered=head, commits_by_people=kept_commits), suite)

    def _append_to_published(self, integration: Integration, head: str, user_commits: UserCommits | None) -> str:
        """Return a tip with the content of `head` that keeps every commit that people have seen."""
        reasons = [f"{request.what}: {request.reason}" for request in integration.requests if request.reason]
        published = get_published_branch(self._local, self._run, self._last_integration, user_commits)
        if published.commit == head:
            return head
        return append_changes(self._local, self._run.repo, published, head, integration.commits, "\n".join(reasons))

    def _check_user_commits(self, integration: Integration, head: str, suite: Suite) -> None:
        """Raise MngrError when a test fails only because of the commits that people made."""
        if list_trees(self._local, self._run.repo, [head]) == [integration.tree]:
            return
        failures = set(suite.run_all(head).failures)
        new_failures = failures - suite.run_all(integration.head).failures.keys() - set(integration.flaky)
        if new_failures:
            new_failures &= suite.rerun_all(head).failures.keys()
        if new_failures:
            raise MngrError(
                f"{min(new_failures)} fails with the commits that you made on the branch",
                f"remove your commits from the branch, or exclude the change that conflicts with them: mngr tmr integrate {self._run.name} --without CHANGE",
            )

    def _save(self, integration: Integration, suite: Suite) -> Integration:
        """Write what is known so far to integration.json, and return it with the time and the test runs so far."""
        integration = integration.replace(
            runs=SuiteWork(**suite.counts, seconds=round(suite.pytest_seconds, 3)),
            seconds=round(time.monotonic() - self._began, 3),
            isolation=sorted(suite.isolations) or integration.isolation,
        )
        save_integration(self._run, integration)
        return integration


def _simplify_verdict(verdict: str) -> str:
    """Return `flaky` for a test whose outcome depends on other tests: no change is to blame for its failure."""
    return "flaky" if verdict in (FAILS_ALONE, FAILS_IN_SUITE) else verdict


def _exclude_requested(requests: Sequence[ExclusionRequest]) -> list[Exclusion]:
    """Return the exclusions that people asked for by name."""
    exclusions = []
    for request in requests:
        reason = f"a person excluded it: {request.reason}" if request.reason else "a person excluded it"
        exclusions += [Exclusion(change=name, why="requested", reason=reason) for name in request.changes]
    return exclusions


def _exclude_other_kinds(changes: Sequence[Change], only: str | None) -> list[Exclusion]:
    """Return the exclusions that follow from `--only`."""
    if only is None:
        return []
    reason = f"it is excluded by --only {only}"
    others = [change for change in changes if change.kind != _KINDS[only]]
    return [Exclusion(change=change.id, why="requested", reason=reason) for change in others]


def _add_fixed_tests(commit: BranchCommit, changes: Mapping[str, Change], failing: set[str]) -> BranchCommit:
    """Return the commit with the tests that its changes fix, without those that fail at the head."""
    fixed = {test for name in commit.changes for test in changes[name].fixed_tests}
    return commit.replace(fixed_tests=sorted(fixed - failing))


def _describe_exclusion(exclusion: Exclusion, change: Change) -> ExcludedChange:
    return ExcludedChange(
        **exclusion.to_dict(), key=change.key, title=change.title, kind=change.kind, tasks=change.tasks
    )
