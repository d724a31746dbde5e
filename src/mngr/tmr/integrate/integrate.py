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
from mngr.tmr.changes.gather import Gathered, gather, integration, save_integration
from mngr.tmr.changes.rejections import Reason, Reasons, reason_of
from mngr.tmr.changes.selection import along, find, renewed, shared, wish
from mngr.tmr.cited_blocks import cited
from mngr.tmr.commits import hostile
from mngr.tmr.commits.trees import trees_of
from mngr.tmr.deliver.branch import appended, branch_of, bring, carried, deliver, shown, theirs
from mngr.tmr.deliver.pull_request import body_of, write_pr
from mngr.tmr.integrate import tree_checks
from mngr.tmr.integrate.advice import Advisor, has_mind
from mngr.tmr.integrate.batches import Batches
from mngr.tmr.integrate.compose import rank, ties
from mngr.tmr.integrate.conflicts import Conflicts
from mngr.tmr.integrate.earlier_verdicts import noted
from mngr.tmr.integrate.full_receipts import deepen
from mngr.tmr.integrate.order import Order
from mngr.tmr.integrate.suite import ALL, CHECK, Suite
from mngr.tmr.integrate.trial import Aside, Before, Settled, Trial
from mngr.tmr.plan import Plan, load_plan
from mngr.tmr.prepare.baseline import verdict
from mngr.tmr.prepare.prepare import baseline_runs
from mngr.tmr.result_cache import Shelf
from mngr.tmr.run import judges_of

Say = Callable[[str], None]


_KINDS = {"impl": "fix", "tests": "test"}
_PATIENCE = 24 * 3600.0  # seconds until the end of another integration


def integrate(fleet: Fleet, run: RunDir, order: Order, say: Say) -> dict[str, Any]:
    """Make the branch, and everything that tells of it; what integration.json says. Raises MngrError."""
    with _alone(run, say):
        return _Integration(fleet, run, order, say).run()


@contextmanager
def _alone(run: RunDir, say: Say) -> Iterator[None]:
    """No other integration of the run goes on meanwhile; the end of one that does is waited for."""
    path = os.path.join(run.path, "integrate.lock")
    with ExitStack() as held:
        try:
            held.enter_context(Lock(path, timeout=1.0))
        except TimedOut:
            say(f"another integration of {run.name} goes on; this one begins when it is over")
            held.enter_context(Lock(path, timeout=_PATIENCE))
        yield


class _Integration:
    """One of them."""

    def __init__(self, fleet: Fleet, run: RunDir, order: Order, say: Say) -> None:
        self._fleet, self._run, self._order, self._say = fleet, run, order, say
        self._local = fleet.context.local
        self._plan: Plan = load_plan(run)
        self._began = time.monotonic()
        self._fresh: list[Reason] = []  # what later agents shall be told
        self._forgotten: set[str] = set()  # keys of changes that are wanted again
        self._last = integration(run) or {}
        if order.is_deep:
            deepen(fleet, run, say)
        self._gathered: Gathered = gather(self._local, run)
        self._baseline = baseline_runs(self._gathered.state.facts)
        self._advisor = None
        if order.agent is not None and has_mind(order.agent):
            self._advisor = Advisor(fleet, run, self._plan, order.agent, order.patience, say)

    def run(self) -> dict[str, Any]:
        """From wishes to the branch."""
        onto = self._onto()
        wishes = self._wishes()
        only = self._order.only or self._last.get("only")
        only = None if only == "all" else only
        ranked = self._ranked()
        chosen, asides = self._chosen(wishes, only, ranked)
        suite = self._suite()
        try:
            trial = Trial(self._local, self._run.repo, onto, suite, self._before(onto), self._say)
            batches = Batches(self._local, self._run.repo, onto, trial, self._last, self._say)
            taken = batches.take(chosen, lambda: self._conflicts(trial))
            data = self._data(taken.settled, [*asides, *taken.asides], wishes, only, onto)
            data["tests"] = self._counted(suite, data)
            data["stood"] = noted(self._last, data, self._gathered.changes)
            data |= {"ranked": ranked, "resolved": taken.resolved, "spend": self._spend(taken.spent)}
            data["checks"] = self._checked(suite, taken.settled.composed.head, onto)
            self._deliver(data, suite)
        finally:
            suite.close()
        self._write(data, suite)
        self._remember()
        write_pr(self._run, self._gathered.state, self._plan)
        if data["verdict"] != "empty" and (prose := self._prose(data)):
            data |= {"prose": prose, "spend": self._spend(taken.spent)}
            self._write(data, suite)
            write_pr(self._run, self._gathered.state, self._plan)
        return data

    # What is asked

    def _onto(self) -> str:
        """What the branch stands on: the run's base, unless another commit was named, now or before."""
        base = self._gathered.base
        if self._order.onto is None:
            return str(self._last.get("onto") or base)
        found = git.resolve(self._local, self._run.root, self._order.onto)
        if found is None:
            raise NotFound(
                f"--onto: there is no commit {self._order.onto!r}", "name a branch, a tag or a commit"
            )
        if found != base:
            bring(self._local, self._run, "onto", found)
        return found

    def _wishes(self) -> list[dict[str, Any]]:
        """What people do not want, with the reasons; those of before and those of now."""
        changes, commits = self._gathered.changes, self._last.get("commits") or []
        rows = [renewed(row, changes) for row in self._last.get("wishes") or []]
        for what in self._order.back:
            keys = {change.key for change in find(changes, what, commits)}
            rest = [{**row, "keys": [key for key in row["keys"] if key not in keys]} for row in rows]
            rows = [row for row in rest if row["keys"]]
            self._forgotten |= keys
        fresh = []
        for what in self._order.without:
            found = find(changes, what, commits)
            if others := shared(changes, what):
                names = ", ".join(change.id for change in others)
                self._say(f"what others than {what} made, too, stays: {names}")
            reason = hostile.clean(self._order.reason, 1000)
            rows.append(wish(what, found, reason))
            fresh += [reason_of(change, reason, self._run.name) for change in found] if reason else []
        self._fresh = fresh
        ids = {change.key: change.id for change in changes}
        return [{**row, "changes": [ids[key] for key in row["keys"] if key in ids]} for row in rows]

    def _blocks(self) -> dict[str, list[str]]:
        """What users do, by the tests that were red and cite it."""
        tests = {test for change in self._gathered.changes for test in change.turned}
        return cited(self._local, self._run.repo, self._gathered.base, tests)

    def _chosen(
        self, wishes: list[dict[str, Any]], only: str | None, ranked: list[dict[str, Any]]
    ) -> tuple[list[Change], list[Aside]]:
        """The changes to begin with, best first, and those that nobody wants."""
        advised = [key for row in ranked for key in row["keys"]]
        changes = rank(self._gathered.changes, self._blocks(), advised)
        asides: dict[str, Aside] = {}
        for row in wishes:
            said = f"left out by wish{': ' + row['reason'] if row['reason'] else ''}"
            for name in row["changes"]:
                asides.setdefault(name, Aside(change=name, why="wish", reason=said))
        for change in changes:
            if only is not None and change.kind != _KINDS[only]:
                asides.setdefault(
                    change.id, Aside(change=change.id, why="wish", reason=f"only {only} was asked for")
                )
        for change, why in along(changes, asides):
            asides.setdefault(
                change.id, Aside(change=change.id, why="needs", reason=why, others=change.needs)
            )
        return [change for change in changes if change.id not in asides], list(asides.values())

    def _remember(self) -> None:
        """What people said of changes, once it is done."""
        if self._forgotten:
            Reasons(self._run.root).forget(self._forgotten)
        if self._fresh:
            Reasons(self._run.root).add(self._fresh)

    # What is advised

    def _ranked(self) -> list[dict[str, Any]]:
        """Equal fixes in an order that an agent gave, with its reasons: now, or at an earlier time about the same."""
        groups = ties(self._gathered.changes, self._blocks())
        if self._advisor is not None:
            return self._advisor.order(self._gathered.base, groups)
        asked = [sorted(change.key for change in group) for group in groups]
        return [row for row in self._last.get("ranked") or [] if sorted(row["keys"]) in asked]

    def _prose(self, data: dict[str, Any]) -> dict[str, Any]:
        """What an agent says of the whole."""
        if self._advisor is not None:
            return self._advisor.prose(self._gathered.base, data["head"], body_of(self._run))
        last: dict[str, Any] = self._last.get("prose") or {}
        return last if last.get("head") == data["head"] else {}

    def _conflicts(self, trial: Trial) -> Conflicts:
        return Conflicts(self._fleet, self._run, self._plan, trial, self._order, self._say)

    def _spend(self, conflicts: dict[str, Any]) -> dict[str, Any]:
        """What this integration used, by what for."""
        used = {"conflicts": conflicts, "advice": self._advisor.spent if self._advisor is not None else {}}
        return {kind: some for kind, some in used.items() if some}

    # What is seen

    def _before(self, onto: str) -> Before:
        """How tests stand on the base, by the run's baseline where the branch stands on that."""
        runs = self._baseline
        known = {test: verdict([ran.outcome for ran in some]) for test, some in runs.items()}
        return Before(
            verdicts=known if onto == self._gathered.base else {},
            loaded={test: some[0].loaded for test, some in runs.items()},
        )

    def _suite(self) -> Suite:
        plan, context = self._plan, self._fleet.context
        rooms = judges_of(self._fleet, self._run, plan, called="jury", at_once=1)
        if plan.verify_on:
            rooms.sweep()
        seconds = {test: max(ran.seconds for ran in some) for test, some in self._baseline.items()}
        suite = Suite(self._local, self._run.repo, plan, rooms, Shelf(self._run.root, "suite"), seconds)
        if command := self._lint():
            suite.also("lint", tree_checks.lint(command), [command])
        if plan.tutorial:
            tests = str(context.settings.get("tutorial.tests") or "tests")
            check = tree_checks.tutorial(self._local, self._run.repo, plan.tutorial, tests)
            suite.also("tutorial", check, [plan.tutorial, tests])
        return suite

    def _lint(self) -> str:
        return str(self._fleet.context.settings.get("project.lint") or "")

    def _checked(self, suite: Suite, head: str, onto: str) -> list[dict[str, Any]]:
        """The other checks at the head, and whether one that does not hold has held before."""
        rows = []
        for name in suite.checks:
            target = CHECK + name
            tried = suite.some(head, [target])
            rows.append(
                {
                    "name": name, "command": "mngr tutorial check" if name == "tutorial" else self._lint(), "ok": not tried.red,
                    "was_ok": not tried.red or not suite.some(onto, [target]).red,
                    "output": hostile.clean_body(tried.whys.get(target, "")),
                }
            )  # fmt: skip
        return rows

    def _counted(self, suite: Suite, data: dict[str, Any]) -> dict[str, Any] | None:
        """The tests at the head: how many, how they ended, and which were red before; None where that is not known of each."""
        if not data["commits"]:
            return None
        outcomes = suite.whole(data["head"]).outcomes
        if ALL in outcomes:
            return None
        red = {
            test for test, some in self._baseline.items() if verdict([ran.outcome for ran in some]) == "fail"
        }
        ends = {"pass": list[str](), "skip": list[str]()}
        for test, outcome in outcomes.items():
            ends.get(outcome, []).append(test)
        return {
            "all": len(outcomes), **{name: len(some) for name, some in ends.items()},
            "green": sorted(red.intersection(ends["pass"])),
        }  # fmt: skip

    # What is told

    def _data(
        self,
        settled: Settled,
        asides: Sequence[Aside],
        wishes: list[dict[str, Any]],
        only: str | None,
        onto: str,
    ) -> dict[str, Any]:
        changes = {change.id: change for change in self._gathered.changes}
        composed = settled.composed
        said = "others do the same, and the branch has it"
        asides = [*asides, *(Aside(change=name, why="already", reason=said) for name in composed.already)]
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
            "v": 1, "run": self._run.name, "at": clock.stamp(), "branch": branch_of(self._run), "base": self._gathered.base,
            "onto": onto, "onto_ref": self._order.onto or self._last.get("onto_ref"), "head": composed.head, "tree": composed.tree,
            "verdict": "red" if settled.red else "green" if composed.commits else "empty",
            "commits": commits, "left_out": left,
            "red": [{"test": test, "why": why} for test, why in sorted(settled.red.items())],
            "open": sum(one.state != "settled" for one in self._gathered.state.tasks.values()), "red_before": settled.red_before, "flaky": settled.flaky, "partly": settled.partly, "wishes": wishes, "only": only,
            "delivered": self._last.get("delivered"), "pushed": self._last.get("pushed"),
        }  # fmt: skip

    def _deliver(self, data: dict[str, Any], suite: Suite) -> None:
        """Move the branch to what was seen to be green; commits of people on it stay."""
        last, data["people"] = data["delivered"], self._last.get("people") or []
        if data["verdict"] == "red" or (data["verdict"] == "empty" and last is None):
            return
        repo, head = self._run.repo, data["head"]
        own = theirs(self._local, self._run, last, data["people"])
        people = carried(self._local, repo, head, own.commits) if own is not None else []
        head = people[-1] if people else head
        if self._order.is_kept and last is not None:
            why = "\n".join(f"{row['what']}: {row['reason']}" for row in data["wishes"] if row["reason"])
            tip, rows = shown(self._local, self._run, self._last, own)
            head = appended(self._local, repo, tip, head, rows, data["commits"], why) if tip != head else tip
            people = own.commits if own is not None else []
        if own is not None and trees_of(self._local, repo, [head]) != [data["tree"]]:
            fresh = set(suite.whole(head).red) - set(suite.whole(data["head"]).red) - set(data["flaky"])
            if fresh and (fresh := fresh.intersection(suite.again(head).red)):
                raise MngrError(
                    f"with your commits on the branch {sorted(fresh)[0]} is red",
                    "take them off the branch, or integrate without what does not go with them",
                )
        deliver(self._local, self._run, head, own.tip if own is not None else last)
        data |= {"delivered": head, "people": people}
        # Whoever is killed from here on finds the branch where it is said to be.
        self._write(data, suite)

    def _write(self, data: dict[str, Any], suite: Suite) -> None:
        """What is known by now, as integration.json."""
        data["runs"] = {**suite.counts, "seconds": round(suite.spent, 3)}
        data["seconds"] = round(time.monotonic() - self._began, 3)
        save_integration(self._run, data)


def is_whole(data: dict[str, Any]) -> bool:
    """Whether everything that was confirmed is in the branch, but for what nobody wants."""
    return data["verdict"] != "red" and not missing(data)


def missing(data: dict[str, Any]) -> list[dict[str, Any]]:
    """What is not in the branch though nobody said so."""
    wished = {row["change"] for row in data["left_out"] if row["why"] == "wish"}
    return [
        row
        for row in data["left_out"]
        if row["why"] not in ("wish", "already")
        and not (row["why"] == "needs" and wished.intersection(row["others"]))
    ]


def red_again(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Tests that an earlier branch had green, and this one has not; where there was none, nothing is known to be so."""
    if before.get("verdict") in (None, "empty"):
        return []
    return sorted(set(after["red_before"]) - set(before.get("red_before") or ()))
