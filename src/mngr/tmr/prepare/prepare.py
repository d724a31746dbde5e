"""Before any agent is made: which tests there are, how they stand untouched, what they have in common, which need work."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal import Journal
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.mapreduce.run_state import replay_rows
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.test_run import TestFunction, TestRun
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.baseline import combine_outcomes, run_baseline
from mngr.tmr.prepare.code_under_test import describe_foreign_code
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.prepare.history import Fingerprinter, RunHistory
from mngr.tmr.prepare.root_causes import group_failures

RowListener = Callable[[dict[str, Any]], None]


class BaselineResult(Struct):
    """A test and how it stands before anybody has touched it."""

    test: TestFunction
    verdict: str  # pass | fail | flaky | skip
    seconds: float
    failing_run: TestRun | None = None


class PreparedTests(Struct):
    """All that is known before agents are made; the journal has it, so that it is found out once."""

    tests: dict[str, BaselineResult]
    root_causes: list[dict[str, Any]]  # clusters of several tests
    skipped: dict[str, str]  # test: why no agent is spent on it

    @property
    def selected_tests(self) -> list[BaselineResult]:
        """The tests that get an agent, now or when their cause is settled."""
        return [one for test, one in self.tests.items() if test not in self.skipped]


def prepare_run(
    local: Host, run: RunDir, plan: RunPlan, rooms: CleanRoomPool, journal: Journal, say: RowListener
) -> PreparedTests:
    """Find out what is not in the journal yet; raises MngrError when the tests cannot be run as they should be."""

    def note(kind: str, **data: Any) -> None:
        say(journal.write(kind, sync=False, **data))

    facts = replay_rows(journal.rows).recipe_rows
    if "collected" not in facts:
        note("collected", tests=[test.to_dict() for test in _collect_tests(plan, rooms)])
        facts = replay_rows(journal.rows).recipe_rows
    tests = [TestFunction(**row) for row in facts["collected"][0]["tests"]]
    memory = RunHistory(run.root)
    prints = Fingerprinter(local, run.repo, plan.base, plan.tutorial)
    skipped = {row["test"]: row["why"] for row in facts.get("skip", [])}
    if "chosen" not in facts:
        changed = _find_changed_files(local, run, plan)
        for test in tests:
            why = _find_skip_reason(plan, test, changed, memory, prints)
            if why is not None:
                skipped[test.id] = why
                note("skip", test=test.id, why=why)
        note("chosen")
    wanted = [test for test in tests if test.id not in skipped]
    durations = {test: one.seconds for test, one in memory.tests.items() if one.seconds}
    run_baseline(
        rooms, plan.base, wanted, plan.pytest, args=plan.args, k=plan.k, timeout=plan.test_timeout, known=list_baseline_runs(facts),
        durations=durations, done=lambda test, number, ran: note("ran", run=ran.to_dict()),
        keep=lambda test, number: _artifact_path(run, test, number),
    )  # fmt: skip
    return _load_prepared(replay_rows(journal.rows).recipe_rows, plan.only, note)


def _artifact_path(run: RunDir, test: TestFunction, number: int) -> str:
    return os.path.join(run.path, "baseline", make_slug(test.id), str(number + 1))


def _load_prepared(facts: dict[str, list[dict[str, Any]]], only: str, note: Callable[..., None]) -> PreparedTests:
    """What the journal says of it; `note` writes down what follows from it and is not there yet."""
    tests = [TestFunction(**row) for row in facts["collected"][0]["tests"]]
    runs = list_baseline_runs(facts)
    skipped = {row["test"]: row["why"] for row in facts.get("skip", [])}
    found: dict[str, BaselineResult] = {}
    for test in tests:
        own = runs.get(test.id, [])
        if not own:
            continue
        bad = next((ran for ran in own if ran.outcome not in ("pass", "skip")), None)
        found[test.id] = BaselineResult(
            test=test,
            verdict=combine_outcomes([ran.outcome for ran in own]),
            seconds=max(ran.seconds for ran in own),
            failing_run=bad,
        )
        if test.id not in skipped and only == "failing" and found[test.id].verdict in ("pass", "skip"):
            skipped[test.id] = "it passes"
    causes = [row["cluster"] for row in facts.get("cluster", [])]
    if "standing" not in facts:
        failing = {name: one.failing_run for name, one in found.items() if one.verdict == "fail" and one.failing_run}
        for cluster in group_failures(failing):
            if cluster.shared and all(cause["id"] != cluster.id for cause in causes):
                causes.append(cluster.to_dict())
                note("cluster", cluster=cluster.to_dict())
        counts = {
            word: sum(one.verdict == word for one in found.values()) for word in ("pass", "fail", "flaky", "skip")
        }
        counts = {word: number for word, number in counts.items() if number}
        note("standing", tests=len(tests), counts=counts, skipped=len(skipped), causes=len(causes))
    return PreparedTests(tests=found, root_causes=causes, skipped=skipped)


def list_baseline_runs(facts: dict[str, list[dict[str, Any]]]) -> dict[str, list[TestRun]]:
    """The runs of the baseline that were made so far, by test."""
    found: dict[str, list[TestRun]] = {}
    for row in facts.get("ran", []):
        found.setdefault(row["run"]["test"], []).append(TestRun.from_dict(row["run"]))
    return found


def _collect_tests(plan: RunPlan, rooms: CleanRoomPool) -> list[TestFunction]:
    with rooms.acquire(plan.base) as room:
        found = collect_tests(room, plan.pytest, plan.paths, plan.args, program=plan.program)
        if found.errors:
            shown = "\n  ".join(line for error in found.errors[:3] for line in error.strip().splitlines()[-12:])
            raise MngrError(
                f"the tests cannot be collected:\n  {shown}",
                "no agent was made; mend that first, or name the tests to work on",
            )
        wrong = describe_foreign_code(found.resolved, plan.program, found.checkout_modules)
        if wrong:
            raise MngrError(f"the tests would not run the workspace's own code: {wrong[0]}", "no agent was made")
    return found.tests


def _find_changed_files(local: Host, run: RunDir, plan: RunPlan) -> set[str] | None:
    """The files that have changed since, if that was asked for."""
    if plan.changed_since is None:
        return None
    found = git.run_checked(local, run.root, "diff", "--name-only", "-z", plan.changed_since, plan.base, "--")
    return set(found.split("\0"))


def _find_skip_reason(
    plan: RunPlan, test: TestFunction, changed: set[str] | None, memory: RunHistory, prints: Fingerprinter
) -> str | None:
    """Why a test needs no agent, as far as can be told without running it."""
    if changed is not None and test.path not in changed:
        return f"it has not changed since {plan.changed_since}"
    known = memory.tests.get(test.id)
    if known is None or known.print != prints.fingerprint_test(test.path):
        return None
    if plan.only == "changed":
        return f"it has not changed since run {known.run} ({known.outcome})"
    if known.verdict == "confirmed" and known.outcome in ("unchanged", "fixed", "improved"):
        return f"nothing has changed since run {known.run} confirmed it"
    return None
