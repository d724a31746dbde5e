"""`integrate`: the changes of a run as one branch that was run; what is not in it is named with the reason. Asked again, it is quick."""

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
from mngr.tmr.integrate.full_receipts import make_full_receipts
from mngr.tmr.integrate.request import IntegrateRequest
from mngr.tmr.integrate.suite import CHECK_PREFIX, WHOLE_SUITE, Suite
from mngr.tmr.integrate.trial import BaseResults, BranchTrial, Exclusion, TrialResult
from mngr.tmr.plan import RunPlan, load_plan
from mngr.tmr.prepare.baseline import combine_outcomes
from mngr.tmr.prepare.prepare import list_baseline_runs
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run import open_clean_rooms

ProgressListener = Callable[[str], None]


_KINDS = {"impl": "fix", "tests": "test"}
_LOCK_TIMEOUT = 24 * 3600.0  # seconds until the end of another integration


def integrate(fleet: Fleet, run: RunDir, order: IntegrateRequest, say: ProgressListener) -> dict[str, Any]:
    """Make the branch, and everything that tells of it; what integration.json says. Raises MngrError."""
    with _lock_integration(run, say):
        return _Integration(fleet, run, order, say).run()


@contextmanager
def _lock_integration(run: RunDir, say: ProgressListener) -> Iterator[None]:
    """No other integration of the run goes on meanwhile; the end of one that does is waited for."""
    path = os.path.join(run.path, "integrate.lock")
    with ExitStack() as held:
        try:
            held.enter_context(Lock(path, timeout=1.0))
        except TimedOut:
            say(f"another integration of {run.name} goes on; this one begins when it is over")
            held.enter_context(Lock(path, timeout=_LOCK_TIMEOUT))
        yield


class _Integration:
    """One of them."""

    def __init__(self, fleet: Fleet, run: RunDir, order: IntegrateRequest, say: ProgressListener) -> None:
        self._fleet, self._run, self._order, self._say = fleet, run, order, say
        self._local = fleet.context.local_host
        self._plan: RunPlan = load_plan(run)
        self._began = time.monotonic()
        self._new_rejections: list[Rejection] = []  # what later agents shall be told
        self._withdrawn_keys: set[str] = set()  # keys of changes that are wanted again
        self._last_integration = find_integration(run) or {}
        if order.is_full_verify:
            make_full_receipts(fleet, run, say)
        self._gathered: GatheredChanges = gather_changes(self._local, run)
        self._baseline = list_baseline_runs(self._gathered.state.recipe_rows)
        self._advisor = None
        if order.agent is not None and can_advise(order.agent):
            self._advisor = Advisor(fleet, run, self._plan, order.agent, order.conflict_timeout, say)

    def run(self) -> dict[str, Any]:
        """From wishes to the branch."""
        onto = self._get_base()
        wishes = self._list_exclusion_requests()
        only = self._order.only or self._last_integration.get("only")
        only = None if only == "all" else only
        ranked = self._rank_ties()
        chosen, asides = self._select_changes(wishes, only, ranked)
        suite = self._make_suite()
        try:
            trial = BranchTrial(self._local, self._run.repo, onto, suite, self._load_base_results(onto), self._say)
            batches = BatchIntegration(self._local, self._run.repo, onto, trial, self._last_integration, self._say)
            taken = batches.integrate_changes(chosen, lambda: self._make_conflict_resolver(trial))
            data = self._build_report(taken.trial_result, [*asides, *taken.exclusions], wishes, only, onto)
            data["tests"] = self._count_tests(suite, data)
            data["stood"] = collect_verdicts(self._last_integration, data, self._gathered.changes)
            data |= {"ranked": ranked, "resolved": taken.resolved, "spend": self._sum_usage(taken.usage)}
            data["checks"] = self._run_other_checks(suite, taken.trial_result.composed.head, onto)
            self._deliver(data, suite)
        finally:
            suite.close()
        self._save_report(data, suite)
        self._save_rejections()
        write_pull_request(self._run, self._gathered.state, self._plan)
        if data["verdict"] != "empty" and (prose := self._write_summary(data)):
            data |= {"prose": prose, "spend": self._sum_usage(taken.usage)}
            self._save_report(data, suite)
            write_pull_request(self._run, self._gathered.state, self._plan)
        return data

    # What is asked

    def _get_base(self) -> str:
        """What the branch stands on: the run's base, unless another commit was named, now or before."""
        base = self._gathered.base
        if self._order.onto is None:
            return str(self._last_integration.get("onto") or base)
        found = git.find_commit(self._local, self._run.root, self._order.onto)
        if found is None:
            raise NotFound(f"--onto: there is no commit {self._order.onto!r}", "name a branch, a tag or a commit")
        if found != base:
            fetch_commit(self._local, self._run, "onto", found)
        return found

    def _list_exclusion_requests(self) -> list[dict[str, Any]]:
        """What people do not want, with the reasons; those of before and those of now."""
        changes, commits = self._gathered.changes, self._last_integration.get("commits") or []
        rows = [refresh_exclusion_request(row, changes) for row in self._last_integration.get("wishes") or []]
        for what in self._order.withdrawn:
            keys = {change.key for change in get_changes(changes, what, commits)}
            rest = [{**row, "keys": [key for key in row["keys"] if key not in keys]} for row in rows]
            rows = [row for row in rest if row["keys"]]
            self._withdrawn_keys |= keys
        fresh = []
        for what in self._order.without:
            found = get_changes(changes, what, commits)
            if others := list_shared_changes(changes, what):
                names = ", ".join(change.id for change in others)
                self._say(f"what others than {what} made, too, stays: {names}")
            reason = untrusted.clean_line(self._order.reason, 1000)
            rows.append(make_exclusion_request(what, found, reason))
            fresh += [make_rejection(change, reason, self._run.name) for change in found] if reason else []
        self._new_rejections = fresh
        ids = {change.key: change.id for change in changes}
        return [{**row, "changes": [ids[key] for key in row["keys"] if key in ids]} for row in rows]

    def _list_cited_blocks(self) -> dict[str, list[str]]:
        """What users do, by the tests that were red and cite it."""
        tests = {test for change in self._gathered.changes for test in change.turned}
        return list_cited_blocks(self._local, self._run.repo, self._gathered.base, tests)

    def _select_changes(
        self, wishes: list[dict[str, Any]], only: str | None, ranked: list[dict[str, Any]]
    ) -> tuple[list[Change], list[Exclusion]]:
        """The changes to begin with, best first, and those that nobody wants."""
        advised = [key for row in ranked for key in row["keys"]]
        changes = rank_changes(self._gathered.changes, self._list_cited_blocks(), advised)
        asides: dict[str, Exclusion] = {}
        for row in wishes:
            said = f"left out by wish{': ' + row['reason'] if row['reason'] else ''}"
            for name in row["changes"]:
                asides.setdefault(name, Exclusion(change=name, why="wish", reason=said))
        for change in changes:
            if only is not None and change.kind != _KINDS[only]:
                asides.setdefault(
                    change.id, Exclusion(change=change.id, why="wish", reason=f"only {only} was asked for")
                )
        for change, why in list_dependents(changes, asides):
            asides.setdefault(change.id, Exclusion(change=change.id, why="needs", reason=why, others=change.needs))
        return [change for change in changes if change.id not in asides], list(asides.values())

    def _save_rejections(self) -> None:
        """What people said of changes, once it is done."""
        if self._withdrawn_keys:
            RejectionFile(self._run.root).delete_rows(self._withdrawn_keys)
        if self._new_rejections:
            RejectionFile(self._run.root).add(self._new_rejections)

    # What is advised

    def _rank_ties(self) -> list[dict[str, Any]]:
        """Equal fixes in an order that an agent gave, with its reasons: now, or at an earlier time about the same."""
        groups = list_ties(self._gathered.changes, self._list_cited_blocks())
        if self._advisor is not None:
            return self._advisor.rank_groups(self._gathered.base, groups)
        asked = [sorted(change.key for change in group) for group in groups]
        return [row for row in self._last_integration.get("ranked") or [] if sorted(row["keys"]) in asked]

    def _write_summary(self, data: dict[str, Any]) -> dict[str, Any]:
        """What an agent says of the whole."""
        if self._advisor is not None:
            return self._advisor.write_summary(self._gathered.base, data["head"], read_body(self._run))
        last: dict[str, Any] = self._last_integration.get("prose") or {}
        return last if last.get("head") == data["head"] else {}

    def _make_conflict_resolver(self, trial: BranchTrial) -> ConflictResolver:
        return ConflictResolver(self._fleet, self._run, self._plan, trial, self._order, self._say)

    def _sum_usage(self, conflicts: dict[str, Any]) -> dict[str, Any]:
        """What this integration used, by what for."""
        used = {"conflicts": conflicts, "advice": self._advisor.usage if self._advisor is not None else {}}
        return {kind: some for kind, some in used.items() if some}

    # What is seen

    def _load_base_results(self, onto: str) -> BaseResults:
        """How tests stand on the base, by the run's baseline where the branch stands on that."""
        runs = self._baseline
        known = {test: combine_outcomes([ran.outcome for ran in some]) for test, some in runs.items()}
        return BaseResults(
            verdicts=known if onto == self._gathered.base else {},
            imported_files={test: some[0].loaded for test, some in runs.items()},
        )

    def _make_suite(self) -> Suite:
        plan, context = self._plan, self._fleet.context
        rooms = open_clean_rooms(self._fleet, self._run, plan, called="jury", at_once=1)
        if plan.verify_on:
            rooms.remove_leftovers()
        seconds = {test: max(ran.seconds for ran in some) for test, some in self._baseline.items()}
        suite = Suite(self._local, self._run.repo, plan, rooms, ResultCache(self._run.root, "suite"), seconds)
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
        """The other checks at the head, and whether one that does not hold has held before."""
        rows = []
        for name in suite.checks:
            target = CHECK_PREFIX + name
            tried = suite.run_tests(head, [target])
            rows.append(
                {
                    "name": name, "command": "mngr tutorial check" if name == "tutorial" else self._get_lint_command(), "ok": not tried.failures,
                    "was_ok": not tried.failures or not suite.run_tests(onto, [target]).failures,
                    "output": untrusted.clean_body(tried.whys.get(target, "")),
                }
            )  # fmt: skip
        return rows

    def _count_tests(self, suite: Suite, data: dict[str, Any]) -> dict[str, Any] | None:
        """The tests at the head: how many, how they ended, and which were red before; None where that is not known of each."""
        if not data["commits"]:
            return None
        outcomes = suite.run_all(data["head"]).outcomes
        if WHOLE_SUITE in outcomes:
            return None
        red = {
            test for test, some in self._baseline.items() if combine_outcomes([ran.outcome for ran in some]) == "fail"
        }
        ends = {"pass": list[str](), "skip": list[str]()}
        for test, outcome in outcomes.items():
            ends.get(outcome, []).append(test)
        return {
            "all": len(outcomes), **{name: len(some) for name, some in ends.items()},
            "green": sorted(red.intersection(ends["pass"])),
        }  # fmt: skip

    # What is told

    def _build_report(
        self,
        settled: TrialResult,
        asides: Sequence[Exclusion],
        wishes: list[dict[str, Any]],
        only: str | None,
        onto: str,
    ) -> dict[str, Any]:
        changes = {change.id: change for change in self._gathered.changes}
        composed = settled.composed
        said = "others do the same, and the branch has it"
        asides = [
            *asides,
            *(Exclusion(change=name, why="already", reason=said) for name in composed.redundant),
        ]
        red = set(settled.red) | set(settled.red_before)
        commits = [
            {
                **row.to_dict(),
                "turned": sorted({test for name in row.changes for test in changes[name].turned} - red),
            }
            for row in composed.commits
        ]
        left = [
            {
                **one.to_dict(), "key": changes[one.change].key, "title": changes[one.change].title, "kind": changes[one.change].kind,
                "tasks": changes[one.change].tasks,
            }
            for one in sorted(asides, key=lambda one: (one.why, one.change))
        ]  # fmt: skip
        return {
            "v": 1, "run": self._run.name, "at": clock.format_timestamp(), "branch": get_branch_name(self._run), "base": self._gathered.base,
            "onto": onto, "onto_ref": self._order.onto or self._last_integration.get("onto_ref"), "head": composed.head, "tree": composed.tree,
            "verdict": "red" if settled.red else "green" if composed.commits else "empty",
            "commits": commits, "left_out": left,
            "red": [{"test": test, "why": why} for test, why in sorted(settled.red.items())],
            "open": sum(one.state != "settled" for one in self._gathered.state.tasks.values()), "red_before": settled.red_before, "flaky": settled.flaky, "partly": settled.partial_commits, "wishes": wishes, "only": only,
            "delivered": self._last_integration.get("delivered"), "pushed": self._last_integration.get("pushed"),
        }  # fmt: skip

    def _deliver(self, data: dict[str, Any], suite: Suite) -> None:
        """Move the branch to what was seen to be green; commits of people on it stay."""
        last, data["people"] = data["delivered"], self._last_integration.get("people") or []
        if data["verdict"] == "red" or (data["verdict"] == "empty" and last is None):
            return
        repo, head = self._run.repo, data["head"]
        own = find_user_commits(self._local, self._run, last, data["people"])
        people = replay_commits(self._local, repo, head, own.commits) if own is not None else []
        head = people[-1] if people else head
        if self._order.is_append_only and last is not None:
            why = "\n".join(f"{row['what']}: {row['reason']}" for row in data["wishes"] if row["reason"])
            tip, rows = get_published_branch(self._local, self._run, self._last_integration, own)
            head = append_changes(self._local, repo, tip, head, rows, data["commits"], why) if tip != head else tip
            people = own.commits if own is not None else []
        if own is not None and list_trees(self._local, repo, [head]) != [data["tree"]]:
            fresh = set(suite.run_all(head).failures) - set(suite.run_all(data["head"]).failures) - set(data["flaky"])
            if fresh and (fresh := fresh.intersection(suite.rerun_all(head).failures)):
                raise MngrError(
                    f"with your commits on the branch {sorted(fresh)[0]} is red",
                    "take them off the branch, or integrate without what does not go with them",
                )
        move_branch(self._local, self._run, head, own.tip if own is not None else last)
        data |= {"delivered": head, "people": people}
        # Whoever is killed from here on finds the branch where it is said to be.
        self._save_report(data, suite)

    def _save_report(self, data: dict[str, Any], suite: Suite) -> None:
        """What is known by now, as integration.json."""
        data["runs"] = {**suite.counts, "seconds": round(suite.pytest_seconds, 3)}
        data["seconds"] = round(time.monotonic() - self._began, 3)
        save_integration(self._run, data)


def is_complete(data: dict[str, Any]) -> bool:
    """Whether everything that was confirmed is in the branch, but for what nobody wants."""
    return data["verdict"] != "red" and not list_missing(data)


def list_missing(data: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not in the branch though nobody said so."""
    wished = {row["change"] for row in data["left_out"] if row["why"] == "wish"}
    return [
        row
        for row in data["left_out"]
        if row["why"] not in ("wish", "already") and not (row["why"] == "needs" and wished.intersection(row["others"]))
    ]


def list_regressions(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Tests that an earlier branch had green, and this one has not; where there was none, nothing is known to be so."""
    if before.get("verdict") in (None, "empty"):
        return []
    return sorted(set(after["red_before"]) - set(before.get("red_before") or ()))
