"""Prepares a run before any agent is created: collects tests, runs the baseline, groups failures, selects tests."""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.base.size_format import choose_noun, format_count
from mngr.base.time_format import format_timestamp
from mngr.host import git
from mngr.host.protocol import Host
from mngr.mapreduce.journal.journal_file import Journal
from mngr.mapreduce.journal.replay import replay_rows
from mngr.mapreduce.journal.run_state import JournalRow, RunState
from mngr.mapreduce.run_dir import RunDir, make_slug
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.replaceable_room import run_in_room
from mngr.tmr.commits.trees import list_trees
from mngr.tmr.prepare.baseline import BaselinePlan, find_failing_run, run_baseline
from mngr.tmr.prepare.baseline_cache import BaselineCache, KnownRuns, hash_environment
from mngr.tmr.prepare.choose_tasks import PassingTest, RankFacts, rank_tests, read_rank_facts
from mngr.tmr.prepare.code_location_check import describe_foreign_code
from mngr.tmr.prepare.explain_collection_failure import make_collection_error
from mngr.tmr.prepare.history.earlier_results import Fingerprinter, HistoryEntry, RunHistory
from mngr.tmr.prepare.journal_facts import (
    BaselineDone,
    BaselineRun,
    RootCauseFound,
    RunFact,
    TestsChosen,
    TestsCollected,
    TestSkipped,
    list_baseline_runs,
    list_facts,
)
from mngr.tmr.prepare.line_selection import LineSelection
from mngr.tmr.prepare.root_causes import RootCause, group_failures
from mngr.tmr.prepare.verdict_of_one_test import VERDICTS, combine_runs
from mngr.tmr.result_cache import get_cache_dir
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.choose_runner import choose_runner_of_plan
from mngr.tmr.runners.test_run import CollectedTests, SuiteLines, TestFunction, TestRun

RowListener = Callable[[JournalRow], None]


class BaselineResult(Struct):
    """A test with its result before any agent has changed anything."""

    test: TestFunction
    verdict: str  # one of verdict_of_one_test.VERDICTS
    seconds: float
    failing_run: TestRun | None = None
    runs: list[TestRun] = []


class PreparedTests(Struct):
    """Everything that is known before agents are created. The journal holds it too, so that it is computed once."""

    tests: dict[str, BaselineResult]
    root_causes: list[RootCause]  # each shared by several tests
    skipped: dict[str, str]  # test: why it gets no agent
    skipped_by_rank: int = 0  # skipped tests that only rank too low

    @property
    def selected_tests(self) -> list[BaselineResult]:
        """Return the tests that get an agent, now or after their root cause is repaired."""
        return [result for test, result in self.tests.items() if test not in self.skipped]


def prepare_run(
    local: Host, run: RunDir, plan: RunPlan, rooms: CleanRoomPool, journal: Journal, publish: RowListener
) -> PreparedTests:
    """Find out everything that the journal does not hold yet, and return it.

    Raises MngrError when the tests cannot be collected or would run foreign code.
    """

    def note(fact: RunFact) -> None:
        publish(journal.write(fact.to_row(), sync=False))

    state = replay_rows(journal.rows)
    if not list_facts(state, TestsCollected):
        note(_collect_tests(plan, rooms))
        state = replay_rows(journal.rows)
    tests = list_facts(state, TestsCollected)[0].tests
    history = RunHistory(local.home, run.root)
    skipped = {fact.test: fact.why for fact in list_facts(state, TestSkipped)}
    if not list_facts(state, TestsChosen):
        fingerprinter = Fingerprinter(local, run.repo, plan.base, plan.tutorial)
        changed = _find_changed_files(local, run, plan)
        selection = LineSelection(local, run.root, run.repo, plan.base)
        for test in tests:
            entry = history.tests.get(test.id)
            is_same = entry is not None and (
                entry.fingerprint == fingerprinter.fingerprint_test(test.path)
                or selection.is_unaffected(test.id, entry.commit)
            )
            reason = _find_skip_reason(plan, test, changed, entry if is_same else None)
            if reason is not None:
                skipped[test.id] = reason
                note(TestSkipped(test=test.id, why=reason))
        note(TestsChosen())
    if not list_facts(state, BaselineDone):
        wanted = [test for test in tests if test.id not in skipped]
        reused = _reuse_baseline(local, run, plan, wanted, state, note)
        _run_baseline(local, run, plan, rooms, wanted, replay_rows(journal.rows), note)
        state = replay_rows(journal.rows)
        _open_baseline_cache(local, run, plan, state).save(
            wanted, list_baseline_runs(state), reused, functools.partial(_artifact_path, run)
        )
    return _load_prepared(
        replay_rows(journal.rows), plan, functools.partial(read_rank_facts, local, run.root, run.repo, plan), note
    )


def _open_baseline_cache(local: Host, run: RunDir, plan: RunPlan, state: RunState) -> BaselineCache:
    environment = list_facts(state, TestsCollected)[0].environment
    tree = str(list_trees(local, run.repo, [plan.base])[0])
    return BaselineCache(get_cache_dir(local.home, run.root), environment, tree)


def _reuse_baseline(
    local: Host,
    run: RunDir,
    plan: RunPlan,
    tests: Sequence[TestFunction],
    state: RunState,
    note: Callable[[RunFact], None],
) -> dict[str, KnownRuns]:
    """Note the runs of these tests in an earlier baseline of the same tree, and return them.

    A failure may have its cause outside of a clean room that is not closed. Then only a baseline without failures counts.
    """
    started = list_baseline_runs(state)
    if plan.fresh:
        return {}
    cache = _open_baseline_cache(local, run, plan, state)
    is_closed = plan.isolation == "on" and not plan.test_on
    found = cache.find(tests, only_if_green=not is_closed)
    for test in tests:
        if test.id not in found or test.id in started:
            continue
        entry = found[test.id]
        for number, test_run in enumerate(entry.runs):
            if test_run.artifacts:
                cache.restore_artifacts(test, number, _artifact_path(run, test, number))
            note(BaselineRun(run=test_run, reused_from=format_timestamp(entry.at)))
    return found


def _run_baseline(
    local: Host,
    run: RunDir,
    plan: RunPlan,
    rooms: CleanRoomPool,
    tests: Sequence[TestFunction],
    state: RunState,
    note: Callable[[RunFact], None],
) -> None:
    """Run the tests without changes, and save the lines that they run. Runs in the journal are not repeated."""
    durations = {test: entry.seconds for test, entry in RunHistory(local.home, run.root).tests.items() if entry.seconds}
    recorded: list[SuiteLines] = []
    run_baseline(
        rooms,
        plan.base,
        choose_runner_of_plan(plan),
        BaselinePlan(
            tests=tests,
            runs=plan.baseline_runs,
            timeout=plan.test_timeout,
            trace=True,
            durations=durations,
            known_runs=list_baseline_runs(state),
        ),
        on_run_end=lambda test, number, test_run: note(BaselineRun(run=test_run)),
        on_lines=recorded.append,
        get_artifact_dir=lambda test, number: _artifact_path(run, test, number),
    )
    if recorded:
        LineSelection(local, run.root, run.repo, plan.base).save(functools.reduce(SuiteLines.merge, recorded))


def _artifact_path(run: RunDir, test: TestFunction, number: int) -> str:
    return os.path.join(run.path, "baseline", make_slug(test.id), str(number + 1))


def _load_prepared(
    state: RunState,
    plan: RunPlan,
    read_facts: Callable[[Sequence[PassingTest]], RankFacts],
    note: Callable[[RunFact], None],
) -> PreparedTests:
    """Build the result from the journal's rows; `note` writes the root causes and counts if the journal lacks them."""
    tests = list_facts(state, TestsCollected)[0].tests
    results = _combine_runs(tests, list_baseline_runs(state))
    skipped = {fact.test: fact.why for fact in list_facts(state, TestSkipped)}
    for name, result in results.items():
        reason = _find_baseline_skip_reason(result, plan.only)
        if reason is not None and name not in skipped:
            skipped[name] = reason
            note(TestSkipped(test=name, why=reason))
    root_causes = [fact.root_cause for fact in list_facts(state, RootCauseFound)]
    low_ranked: list[str] = []
    if not list_facts(state, BaselineDone):
        known_ids = {root_cause.id for root_cause in root_causes}
        for root_cause in _find_shared_causes(results):
            if root_cause.id not in known_ids:
                root_causes.append(root_cause)
                note(RootCauseFound(root_cause=root_cause))
        selected = [result for name, result in results.items() if name not in skipped]
        low_ranked = _list_low_ranks(selected, root_causes, plan.max_tasks, read_facts)
        for test in low_ranked:
            skipped[test] = (
                f"it passes, and {format_count(plan.max_tasks, 'task')} {choose_noun(plan.max_tasks, 'comes', 'come')} first (--max-tasks)"
            )
            note(TestSkipped(test=test, why=skipped[test], has_low_rank=True))
        counts = Counter(result.verdict for result in results.values())
        ordered = {verdict: counts[verdict] for verdict in VERDICTS if counts[verdict]}
        reused = {fact.run.test: fact.reused_from for fact in list_facts(state, BaselineRun) if fact.reused_from}
        note(
            BaselineDone(
                tests=len(tests),
                counts=ordered,
                skipped=len(skipped),
                root_causes=len(root_causes),
                reused=len(reused),
                reused_from=min(reused.values(), default=""),
            )
        )
    known_low_rank_count = sum(fact.has_low_rank for fact in list_facts(state, TestSkipped))
    return PreparedTests(
        tests=results, root_causes=root_causes, skipped=skipped, skipped_by_rank=known_low_rank_count + len(low_ranked)
    )


def _list_low_ranks(
    selected: Sequence[BaselineResult],
    root_causes: Sequence[RootCause],
    max_tasks: int,
    read_facts: Callable[[Sequence[PassingTest]], RankFacts],
) -> list[str]:
    """Return the passing tests that get no task, because others rank higher."""
    passing = [
        PassingTest(id=result.test.id, path=result.test.path, seconds=result.seconds)
        for result in selected
        if result.verdict == "pass"
    ]
    with_shared_cause = {test for root_cause in root_causes for test in root_cause.tests}
    others = [result for result in selected if result.verdict != "pass" and result.test.id not in with_shared_cause]
    room = max(0, max_tasks - len(root_causes) - len(others))
    if len(passing) <= room:
        return []
    return [test.id for test in rank_tests(passing, read_facts(passing))[room:]]


def _find_baseline_skip_reason(result: BaselineResult, only: str) -> str | None:
    """Return why a test needs no agent, judged by its baseline, or None when it needs one."""
    if result.verdict == "skip":
        return "pytest skips it"
    return "it passes" if only == "failing" and result.verdict == "pass" else None


def _combine_runs(
    tests: Sequence[TestFunction], runs_by_test: Mapping[str, Sequence[TestRun]]
) -> dict[str, BaselineResult]:
    """Return the baseline of each test that was run."""
    results: dict[str, BaselineResult] = {}
    for test in tests:
        runs = runs_by_test.get(test.id, [])
        if runs:
            results[test.id] = BaselineResult(
                test=test,
                verdict=combine_runs(runs),
                seconds=max(run.seconds for run in runs),
                failing_run=find_failing_run(runs),
                runs=list(runs),
            )
    return results


def _find_shared_causes(results: Mapping[str, BaselineResult]) -> list[RootCause]:
    """Return the root causes that several failing tests share."""
    failing = {
        name: result.failing_run for name, result in results.items() if result.verdict == "fail" and result.failing_run
    }
    return [root_cause for root_cause in group_failures(failing) if root_cause.is_shared]


def _collect_tests(plan: RunPlan, rooms: CleanRoomPool) -> TestsCollected:
    """Return the tests and their environment; raise MngrError when they cannot be collected or would run foreign code."""
    runner = choose_runner_of_plan(plan)
    collected = run_in_room(rooms, plan.base, lambda room: runner.collect(room, plan.paths, program=plan.program))
    if not collected.tests:
        raise make_collection_error(collected, plan.paths, has_network=plan.isolation != "on")
    problems = describe_foreign_code(collected.resolved, plan.program, collected.checkout_modules)
    if problems:
        raise MngrError(
            f"the tests would load the program from outside their copy: {problems[0]}",
            "mngr created no agent; correct the settings, then try again: mngr tmr run --dry-run",
        )
    tests = [*collected.tests, *_list_broken_files(collected)]
    return TestsCollected(tests=tests, environment=hash_environment(plan, collected, rooms.cache_key, rooms.settings))


def _list_broken_files(collected: CollectedTests) -> list[TestFunction]:
    """Return the files that could not be collected. Each counts as one failing test."""
    files = dict.fromkeys(failure.id for failure in collected.failures if failure.when == "collect" and failure.id)
    return [TestFunction(id=path, ids=[path], path=path, name=os.path.basename(path)) for path in files]


def _find_changed_files(local: Host, run: RunDir, plan: RunPlan) -> set[str] | None:
    """Return the files that changed since `plan.changed_since`, or None when the plan does not set it."""
    if plan.changed_since is None:
        return None
    output = git.run_checked(
        local, run.root, "diff", "--name-only", "-z", plan.changed_since, plan.base, "--", git_command=git.GIT
    )
    return set(output.split("\0"))


def _find_skip_reason(
    plan: RunPlan, test: TestFunction, changed_files: set[str] | None, entry: HistoryEntry | None
) -> str | None:
    """Return why a test needs no agent, judged without running it, or None when it needs one.

    `entry` is the test's last result if nothing that it depends on has changed since.
    """
    if changed_files is not None and test.path not in changed_files:
        return f"it has not changed since {plan.changed_since}"
    if entry is None:
        return None
    if plan.only == "changed":
        return f"it has not changed since run {entry.run} ({entry.outcome})"
    if entry.verdict == "confirmed" and entry.outcome in ("unchanged", "fixed", "improved"):
        return f"neither the test nor its code has changed since run {entry.run} confirmed it"
    return None
