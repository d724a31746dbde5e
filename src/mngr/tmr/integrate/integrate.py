"""Builds one tested branch from the changes of a run, and names each excluded change with its reason.

A repeated integration is quick, because test results and verdicts are reused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from mngr.api import Fleet
from mngr.base import clock
from mngr.base.errors import MngrError, NotFound, TimedOut
from mngr.base.lock import Lock
from mngr.host import git
from mngr.mapreduce.run_dir import RunDir
from mngr.tmr.changes.changes import Change
from mngr.tmr.changes.gather import GatheredChanges, find_integration, gather_changes, save_integration
from mngr.tmr.changes.rejections import Rejection, RejectionFile, make_rejection
from mngr.tmr.changes.selection import (
    get_changes,
    list_dependents,
    list_shared_changes,
    make_exclusion_request,
    refresh_exclusion_request,
)
from mngr.tmr.cited_blocks import list_cited_blocks
from mngr.tmr.commits import untrusted
from mngr.tmr.commits.trees import list_trees
from mngr.tmr.deliver.branch import (
    append_changes,
    fetch_commit,
    find_user_commits,
    get_branch_name,
    get_published_branch,
    move_branch,
    replay_commits,
)
from mngr.tmr.deliver.pull_request import read_body, write_pull_request
from mngr.tmr.integrate import tree_checks
from mngr.tmr.integrate.advice import Advisor, can_advise
from mngr.tmr.integrate.batches import BatchIntegration
from mngr.tmr.integrate.compose import list_ties, rank_changes
from mngr.tmr.integrate.conflicts import ConflictResolver
from mngr.tmr.integrate.earlier_verdicts import collect_verdicts
from mngr.tmr.integrate.request import IntegrateRequest
from mngr.tmr.integrate.suite import CHECK_PREFIX, WHOLE_SUITE, Suite
from mngr.tmr.integrate.trial import BaseResults, BranchTrial, Exclusion, TrialResult
from mngr.tmr.integrate.upgrade_receipts import make_full_receipts
from mngr.tmr.plan import RunPlan, load_plan
from mngr.tmr.plan_options import open_clean_rooms
from mngr.tmr.prepare.baseline import combine_outcomes
from mngr.tmr.prepare.prepare import list_baseline_runs
from mngr.tmr.result_cache import ResultCache

ProgressListener = Callable[[str], None]


_KINDS = {"impl": "fix", "tests": "test"}
_LOCK_TIMEOUT = 24 * 3600.0  # seconds to wait for another integration


def integrate(fleet: Fleet, run: RunDir, request: IntegrateRequest, report: ProgressListener) -> dict[str, Any]:
    """Build the branch and everything that describes it. Return the content of integration.json. Raise MngrError."""
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
            report(f"another integration of {run.name} goes on; this one begins when it is over")
            stack.enter_context(Lock(path, timeout=_LOCK_TIMEOUT))
        yield


class _Integration:
    """One integration of a run."""

    def __init__(self, fleet: Fleet, run: RunDir, request: IntegrateRequest, report: ProgressListener) -> None:
        self._fleet, self._run, self._order, self._say = fleet, run, request, report
        self._local = fleet.context.local_host
        self._plan: RunPlan = load_plan(run)
        self._began = time.monotonic()
        self._new_rejections: list[Rejection] = []  # rejections to save for later agents
        self._withdrawn_keys: set[str] = set()  # keys of changes whose exclusion was withdrawn
        self._last_integration = find_integration(run) or {}
        if request.is_full_verify:
            make_full_receipts(fleet, run, report)
        self._gathered: GatheredChanges = gather_changes(self._local, run)
        self._baseline = list_baseline_runs(self._gathered.state.recipe_rows)
        self._advisor = None
        if request.agent is not None and can_advise(request.agent):
            self._advisor = Advisor(fleet, run, self._plan, request.agent, request.conflict_timeout, report)

    def run(self) -> dict[str, Any]:
        """Select, merge, test and deliver the changes. Return the report."""
        onto = self._get_base()
        exclusion_requests = self._list_exclusion_requests()
        only = self._order.only or self._last_integration.get("only")
        only = None if only == "all" else only
        ranked = self._rank_ties()
        chosen, exclusions = self._select_changes(exclusion_requests, only, ranked)
        suite = self._make_suite()
        try:
            trial = BranchTrial(self._local, self._run.repo, onto, suite, self._load_base_results(onto), self._say)
            batches = BatchIntegration(self._local, self._run.repo, onto, trial, self._last_integration, self._say)
            result = batches.integrate_changes(chosen, lambda: self._make_conflict_resolver(trial))
            data = self._build_report(
                result.trial_result, [*exclusions, *result.exclusions], exclusion_requests, only, onto
            )
            data["tests"] = self._count_tests(suite, data)
            data["stood"] = collect_verdicts(self._last_integration, data, self._gathered.changes)
            data |= {"ranked": ranked, "resolved": result.resolved, "spend": self._sum_usage(result.usage)}
            data["checks"] = self._run_other_checks(suite, result.trial_result.composed.head, onto)
            self._deliver(data, suite)
        finally:
            suite.close()
        self._save_report(data, suite)
        self._save_rejections()
        write_pull_request(self._run, self._gathered.state, self._plan)
        if data["verdict"] != "empty" and (prose := self._write_summary(data)):
            data |= {"prose": prose, "spend": self._sum_usage(result.usage)}
            self._save_report(data, suite)
            write_pull_request(self._run, self._gathered.state, self._plan)
        return data

    # Selecting

    def _get_base(self) -> str:
        """Return the commit below the branch: the one that was named, now or earlier, else the run's base."""
        base = self._gathered.base
        if self._order.onto is None:
            return str(self._last_integration.get("onto") or base)
        commit = git.find_commit(self._local, self._run.root, self._order.onto)
        if commit is None:
            raise NotFound(f"--onto: there is no commit {self._order.onto!r}", "name a branch, a tag or a commit")
        if commit != base:
            fetch_commit(self._local, self._run, "onto", commit)
        return commit

    def _list_exclusion_requests(self) -> list[dict[str, Any]]:
        """Return the exclusions that people asked for, now or earlier, without the withdrawn ones."""
        changes, commits = self._gathered.changes, self._last_integration.get("commits") or []
        rows = [refresh_exclusion_request(row, changes) for row in self._last_integration.get("wishes") or []]
        for target in self._order.withdrawn:
            keys = {change.key for change in get_changes(changes, target, commits)}
            remaining = [{**row, "keys": [key for key in row["keys"] if key not in keys]} for row in rows]
            rows = [row for row in remaining if row["keys"]]
            self._withdrawn_keys |= keys
        rejections = []
        for target in self._order.without:
            excluded = get_changes(changes, target, commits)
            if others := list_shared_changes(changes, target):
                names = ", ".join(change.id for change in others)
                self._say(f"what others than {target} made, too, stays: {names}")
            reason = untrusted.clean_line(self._order.reason, 1000)
            rows.append(make_exclusion_request(target, excluded, reason))
            rejections += [make_rejection(change, reason, self._run.name) for change in excluded] if reason else []
        self._new_rejections = rejections
        ids = {change.key: change.id for change in changes}
        return [{**row, "changes": [ids[key] for key in row["keys"] if key in ids]} for row in rows]

    def _list_cited_blocks(self) -> dict[str, list[str]]:
        """Return the tutorial blocks that the repaired tests cite, by test."""
        tests = {test for change in self._gathered.changes for test in change.turned}
        return list_cited_blocks(self._local, self._run.repo, self._gathered.base, tests)

    def _select_changes(
        self, exclusion_requests: list[dict[str, Any]], only: str | None, ranked: list[dict[str, Any]]
    ) -> tuple[list[Change], list[Exclusion]]:
        """Return the changes to integrate, best first, and the exclusions that follow from requests."""
        advised = [key for row in ranked for key in row["keys"]]
        changes = rank_changes(self._gathered.changes, self._list_cited_blocks(), advised)
        exclusions: dict[str, Exclusion] = {}
        for row in exclusion_requests:
            reason = f"left out by wish{': ' + row['reason'] if row['reason'] else ''}"
            for name in row["changes"]:
                exclusions.setdefault(name, Exclusion(change=name, why="wish", reason=reason))
        for change in changes:
            if only is not None and change.kind != _KINDS[only]:
                exclusions.setdefault(
                    change.id, Exclusion(change=change.id, why="wish", reason=f"only {only} was asked for")
                )
        for change, why in list_dependents(changes, exclusions):
            exclusions.setdefault(change.id, Exclusion(change=change.id, why="needs", reason=why, others=change.needs))
        return [change for change in changes if change.id not in exclusions], list(exclusions.values())

    def _save_rejections(self) -> None:
        """Save what people said about excluded changes, and delete withdrawn rejections."""
        if self._withdrawn_keys:
            RejectionFile(self._run.root).delete_rows(self._withdrawn_keys)
        if self._new_rejections:
            RejectionFile(self._run.root).add(self._new_rejections)

    # Advice

    def _rank_ties(self) -> list[dict[str, Any]]:
        """Return equally good fixes in the order that an agent advised, now or earlier, with its reasons."""
        groups = list_ties(self._gathered.changes, self._list_cited_blocks())
        if self._advisor is not None:
            return self._advisor.rank_groups(self._gathered.base, groups)
        tied_keys = [sorted(change.key for change in group) for group in groups]
        return [row for row in self._last_integration.get("ranked") or [] if sorted(row["keys"]) in tied_keys]

    def _write_summary(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return an agent's summary of the branch, or the earlier one if the branch is the same."""
        if self._advisor is not None:
            return self._advisor.write_summary(self._gathered.base, data["head"], read_body(self._run))
        last: dict[str, Any] = self._last_integration.get("prose") or {}
        return last if last.get("head") == data["head"] else {}

    def _make_conflict_resolver(self, trial: BranchTrial) -> ConflictResolver:
        return ConflictResolver(self._fleet, self._run, self._plan, trial, self._order, self._say)

    def _sum_usage(self, conflicts: dict[str, Any]) -> dict[str, Any]:
        """Return what this integration used, by purpose."""
        usage_by_purpose = {"conflicts": conflicts, "advice": self._advisor.usage if self._advisor is not None else {}}
        return {kind: usage for kind, usage in usage_by_purpose.items() if usage}

    # Testing

    def _load_base_results(self, onto: str) -> BaseResults:
        """Return the results of the tests on the base, from the run's baseline if the base is the same."""
        runs = self._baseline
        verdicts = {test: combine_outcomes([run.outcome for run in test_runs]) for test, test_runs in runs.items()}
        return BaseResults(
            verdicts=verdicts if onto == self._gathered.base else {},
            imported_files={test: test_runs[0].loaded for test, test_runs in runs.items()},
        )

    def _make_suite(self) -> Suite:
        plan, context = self._plan, self._fleet.context
        clean_rooms = open_clean_rooms(self._fleet, self._run, plan, name_prefix="jury", max_rooms=1)
        if plan.verify_on:
            clean_rooms.remove_leftovers()
        seconds = {test: max(run.seconds for run in test_runs) for test, test_runs in self._baseline.items()}
        suite = Suite(self._local, self._run.repo, plan, clean_rooms, ResultCache(self._run.root, "suite"), seconds)
        if command := self._get_lint_command():
            suite.add_check("lint", tree_checks.make_lint_check(command), [command])
        if plan.tutorial:
            tests = str(context.settings.get("tutorial.tests") or "tests")
            check = tree_checks.make_tutorial_check(self._local, self._run.repo, plan.tutorial, tests)
            suite.add_check("tutorial", check, [plan.tutorial, tests])
        return suite

    def _get_lint_command(self) -> str:
        return str(self._fleet.context.settings.get("project.lint") or "")

    def _run_other_checks(self, suite: Suite, head: str, onto: str) -> list[dict[str, Any]]:
        """Run the other checks at the head. For a failing one, say whether it passed on the base."""
        rows = []
        for name in suite.checks:
            target = CHECK_PREFIX + name
            result = suite.run_tests(head, [target])
            rows.append(
                {
                    "name": name, "command": "mngr tutorial check" if name == "tutorial" else self._get_lint_command(), "ok": not result.failures,
                    "was_ok": not result.failures or not suite.run_tests(onto, [target]).failures,
                    "output": untrusted.clean_body(result.whys.get(target, "")),
                }
            )  # fmt: skip
        return rows

    def _count_tests(self, suite: Suite, data: dict[str, Any]) -> dict[str, Any] | None:
        """Return how many tests passed or were skipped at the head, and which the branch repaired.

        Return None when the results of single tests are unknown.
        """
        if not data["commits"]:
            return None
        outcomes = suite.run_all(data["head"]).outcomes
        if WHOLE_SUITE in outcomes:
            return None
        failing_before = {
            test for test, runs in self._baseline.items() if combine_outcomes([run.outcome for run in runs]) == "fail"
        }
        tests_by_outcome = {"pass": list[str](), "skip": list[str]()}
        for test, outcome in outcomes.items():
            tests_by_outcome.get(outcome, []).append(test)
        return {
            "all": len(outcomes), **{name: len(tests) for name, tests in tests_by_outcome.items()},
            "green": sorted(failing_before.intersection(tests_by_outcome["pass"])),
        }  # fmt: skip

    # Reporting and delivering

    def _build_report(
        self,
        result: TrialResult,
        exclusions: Sequence[Exclusion],
        exclusion_requests: list[dict[str, Any]],
        only: str | None,
        onto: str,
    ) -> dict[str, Any]:
        """Return the report on the branch and the excluded changes."""
        changes = {change.id: change for change in self._gathered.changes}
        composed = result.composed
        redundant_reason = "others do the same, and the branch has it"
        exclusions = [
            *exclusions,
            *(Exclusion(change=name, why="already", reason=redundant_reason) for name in composed.redundant),
        ]
        red = set(result.red) | set(result.red_before)
        commits = [
            {
                **row.to_dict(),
                "turned": sorted({test for name in row.changes for test in changes[name].turned} - red),
            }
            for row in composed.commits
        ]
        excluded_rows = [
            {
                **exclusion.to_dict(), "key": changes[exclusion.change].key, "title": changes[exclusion.change].title, "kind": changes[exclusion.change].kind,
                "tasks": changes[exclusion.change].tasks,
            }
            for exclusion in sorted(exclusions, key=lambda exclusion: (exclusion.why, exclusion.change))
        ]  # fmt: skip
        return {
            "v": 1, "run": self._run.name, "at": clock.format_timestamp(), "branch": get_branch_name(self._run), "base": self._gathered.base,
            "onto": onto, "onto_ref": self._order.onto or self._last_integration.get("onto_ref"), "head": composed.head, "tree": composed.tree,
            "verdict": "red" if result.red else "green" if composed.commits else "empty",
            "commits": commits, "left_out": excluded_rows,
            "red": [{"test": test, "why": why} for test, why in sorted(result.red.items())],
            "open": sum(task.state != "settled" for task in self._gathered.state.tasks.values()), "red_before": result.red_before, "flaky": result.flaky, "partly": result.partial_commits, "wishes": exclusion_requests, "only": only,
            "delivered": self._last_integration.get("delivered"), "pushed": self._last_integration.get("pushed"),
        }  # fmt: skip

    def _deliver(self, data: dict[str, Any], suite: Suite) -> None:
        """Move the branch to the tested head and keep the commits that people made on it."""
        last, data["people"] = data["delivered"], self._last_integration.get("people") or []
        if data["verdict"] == "red" or (data["verdict"] == "empty" and last is None):
            return
        repo, head = self._run.repo, data["head"]
        user_commits = find_user_commits(self._local, self._run, last, data["people"])
        kept_commits = replay_commits(self._local, repo, head, user_commits.commits) if user_commits is not None else []
        head = kept_commits[-1] if kept_commits else head
        if self._order.is_append_only and last is not None:
            reasons = "\n".join(f"{row['what']}: {row['reason']}" for row in data["wishes"] if row["reason"])
            tip, rows = get_published_branch(self._local, self._run, self._last_integration, user_commits)
            head = append_changes(self._local, repo, tip, head, rows, data["commits"], reasons) if tip != head else tip
            kept_commits = user_commits.commits if user_commits is not None else []
        if user_commits is not None and list_trees(self._local, repo, [head]) != [data["tree"]]:
            new_failures = (
                set(suite.run_all(head).failures) - set(suite.run_all(data["head"]).failures) - set(data["flaky"])
            )
            if new_failures and (new_failures := new_failures.intersection(suite.rerun_all(head).failures)):
                raise MngrError(
                    f"with your commits on the branch {sorted(new_failures)[0]} is red",
                    "take them off the branch, or integrate without what does not go with them",
                )
        move_branch(self._local, self._run, head, user_commits.tip if user_commits is not None else last)
        data |= {"delivered": head, "people": kept_commits}
        # If mngr is killed after this, the report already names the branch's real position.
        self._save_report(data, suite)

    def _save_report(self, data: dict[str, Any], suite: Suite) -> None:
        """Write what is known so far to integration.json."""
        data["runs"] = {**suite.counts, "seconds": round(suite.pytest_seconds, 3)}
        data["seconds"] = round(time.monotonic() - self._began, 3)
        save_integration(self._run, data)


def is_complete(data: dict[str, Any]) -> bool:
    """True when every confirmed change is in the branch, except those that people excluded."""
    return data["verdict"] != "red" and not list_missing(data)


def list_missing(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the excluded changes that nobody asked to exclude."""
    requested = {row["change"] for row in data["left_out"] if row["why"] == "wish"}
    return [
        row
        for row in data["left_out"]
        if row["why"] not in ("wish", "already")
        and not (row["why"] == "needs" and requested.intersection(row["others"]))
    ]


def list_regressions(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the tests that passed on the earlier branch and fail on this one. Empty without an earlier branch."""
    if before.get("verdict") in (None, "empty"):
        return []
    return sorted(set(after["red_before"]) - set(before.get("red_before") or ()))
