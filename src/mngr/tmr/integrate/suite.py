"""Runs the suite, or a part of it, at a commit, in clean rooms that serve only this commit.

A long list of tests is split into shards, which run at the same time. Results are cached by tree.
"""

from __future__ import annotations

import concurrent.futures
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.replaceable_room import run_in_room
from mngr.tmr.commits.trees import GIT_SAFE_ARGS, diff_trees, list_trees
from mngr.tmr.prepare.shards import split_tests
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.run_plan import RunPlan
from mngr.tmr.runners.choose_runner import choose_runner_of_plan
from mngr.tmr.runners.test_run import CollectedTests, SuiteRequest, SuiteRun, TestFunction, first_line

Result = TypeVar("Result")
TreeCheck = Callable[[str, CleanRoom], tuple[bool, str]]  # given a commit: whether the check passes, and its output


_RULES_VERSION = 3  # increased when the same run may be judged differently
_MAX_ARG_CHARACTERS = 60_000  # characters of test names on one command line of pytest
_PASSING_OUTCOMES = ("pass", "skip")
# Python reuses bytecode while a source file has the same size and second of change. Here, commits follow faster.
_NO_BYTECODE_ENV = {"PYTHONDONTWRITEBYTECODE": "1"}
WHOLE_SUITE = ""  # stands for the whole suite, when its tests cannot even be collected
_NOT_FOUND_TEXT = " not found: "  # part of pytest's message about an unknown test
# The expected seconds of a shard that is worth its own process, and of one that is worth its own host.
_MIN_SHARD_SECONDS, _MIN_HOST_SECONDS = 2.0, 20.0
_MAX_CRASHES = 20  # restarts after a test that ended pytest itself
CHECK_PREFIX = "check:"  # prefix of the names of the project's other checks


class SuiteResult(Struct):
    """The outcomes of tests. A file that cannot be collected counts as a test."""

    outcomes: dict[str, str]
    reasons: dict[str, str] = {}

    @property
    def failures(self) -> dict[str, str]:
        """The failed tests, with the reasons."""
        return {
            test: self.reasons.get(test, outcome)
            for test, outcome in self.outcomes.items()
            if outcome not in _PASSING_OUTCOMES
        }


class Suite:
    """The tests of a project. Only one thread may use it. It uses the clean rooms of the pool at the same time."""

    def __init__(
        self,
        local: Host,
        repo: str,
        plan: RunPlan,
        clean_rooms: CleanRoomPool,
        cache: ResultCache,
        seconds: Mapping[str, float],
    ) -> None:
        self._local = local
        self._repo = repo
        self._plan = plan
        self._rooms = clean_rooms
        self._cache = cache
        self._runner = choose_runner_of_plan(plan)
        self._seconds = seconds  # duration of each test, as far as it is known
        self.expected_seconds = sum(seconds.values())
        self.checks: dict[str, TreeCheck] = {}  # other checks, by name
        self._check_settings: dict[str, list[str]] = {}  # settings of the other checks
        self._tree_by_commit: dict[str, str] = {}  # commit -> its tree
        self._count_lock = threading.Lock()
        self.counts = {"processes": 0, "tests": 0, "cached": 0}
        self.pytest_seconds = 0.0  # seconds spent in pytest
        self.isolations: set[str] = set()  # of the clean rooms in which tests ran

    def close(self) -> None:
        """Close the pool of clean rooms."""
        self._rooms.close()

    def add_check(self, name: str, check: TreeCheck, settings: list[str]) -> None:
        """Add another check. Its result depends on the tree and on `settings`."""
        self.checks[name] = check
        self._check_settings[CHECK_PREFIX + name] = settings

    def list_changed_paths(self, pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
        """Return the files that differ between the two commits of each pair."""
        trees = [str(tree) for tree in list_trees(self._local, self._repo, [name for pair in pairs for name in pair])]
        diffs = diff_trees(self._local, self._repo, list(zip(trees[::2], trees[1::2], strict=True)))
        return [{row.path for row in rows} for rows in diffs]

    def run_by_imports(self, commit: str, files: Mapping[str, Sequence[str] | None]) -> SuiteResult:
        """Run tests, given the imported files of each test, or None if unknown.

        Reuse a test's result from any commit in which these files are the same.
        """
        listing = (
            git.run_checked(
                self._local, self._repo, *GIT_SAFE_ARGS, "ls-tree", "-r", "-z", commit, git_command=git.ISOLATED_GIT
            )
            if files
            else ""
        )
        pairs = (row.split("\t", 1) for row in listing.split("\0") if "\t" in row)
        rows = {path: entry for entry, path in pairs}
        keys = {
            test: [
                _RULES_VERSION,
                self._plan.pytest,
                self._plan.args,
                test,
                [[path, rows.get(path)] for path in imported],
                self._rooms.cache_key,
            ]
            for test, imported in files.items()
            if imported is not None
        }
        results = {
            test: single_result for test, key in keys.items() if (single_result := self._find_cached(key)) is not None
        }
        new_result = self.run_tests(commit, files.keys() - results)
        for test in keys.keys() - results:
            own_reasons = {test: new_result.reasons[test]} if test in new_result.reasons else {}
            results[test] = SuiteResult(outcomes={test: new_result.outcomes[test]}, reasons=own_reasons)
            self._cache.put(keys[test], results[test].to_dict())
        outcomes = {
            test: outcome for single_result in results.values() for test, outcome in single_result.outcomes.items()
        }
        reasons = {test: why for single_result in results.values() for test, why in single_result.reasons.items()}
        return SuiteResult(outcomes={**new_result.outcomes, **outcomes}, reasons={**new_result.reasons, **reasons})

    def run_all(self, commit: str) -> SuiteResult:
        """Run all tests as the project itself does, or return the cached result."""
        key = self._build_cache_key(commit, "*")
        cached = self._find_cached(key)
        if cached is not None:
            return cached
        result = self.rerun_all(commit)
        self._cache.put(key, result.to_dict())
        return result

    def rerun_all(self, commit: str) -> SuiteResult:
        """Run all tests again, without the cache."""
        if self._count_shards(self.expected_seconds) > 1:
            collected = self._collect_tests(commit)
            broken_files = {failure.id for failure in collected.failures if failure.when == "collect" and failure.id}
            if collected.tests:
                return self._run_in_shards(commit, [*(test.id for test in collected.tests), *sorted(broken_files)])
        result = self._run_pytest(commit, self._plan.paths)
        if not _is_truncated(result):
            return result
        rest = [name for name in self._list_tests(commit) if name not in result.outcomes]
        return _merge_results(result, self._run_in_shards(commit, rest))

    def list_stable(self, commit: str, tests: Iterable[str], *, red: bool, times: int = 2) -> set[str]:
        """Return those of the failing or passing tests that end the same way every time."""
        single_tests = {test for test in tests if test != WHOLE_SUITE and not test.startswith(CHECK_PREFIX)}
        others = set(tests) - single_tests
        keys = {test: self._build_cache_key(commit, f"steady: {test}") for test in single_tests}
        results = {test: cached for test in single_tests if (cached := self._find_cached(keys[test])) is not None}
        stable = single_tests - results.keys()
        for _ in range(times):
            if stable:
                result = self._run_in_shards(commit, sorted(stable))
                stable -= {test for test in stable if _is_red(result, test) != red}
        for test in single_tests - results.keys():
            results[test] = SuiteResult(outcomes={test: "steady" if test in stable else "flaky"})
            self._cache.put(keys[test], results[test].to_dict())
        return others | {test for test in single_tests if results[test].outcomes[test] == "steady"}

    def run_tests(self, commit: str, targets: Iterable[str]) -> SuiteResult:
        """Run these tests or files. Only those without a cached result run, together in one pytest."""
        wanted = sorted(set(targets))
        outcomes: dict[str, str] = {}
        reasons: dict[str, str] = {}
        uncached = []
        for target in wanted:
            cached = self._find_cached(self._build_cache_key(commit, target))
            if cached is None:
                uncached.append(target)
            else:
                outcomes |= cached.outcomes
                reasons |= cached.reasons
        while uncached:
            batch = _take_fitting(uncached)
            uncached = uncached[len(batch) :]
            for target, result in self._run_batch(commit, batch).items():
                self._cache.put(self._build_cache_key(commit, target), result.to_dict())
                outcomes |= result.outcomes
                reasons |= result.reasons
        return SuiteResult(outcomes=outcomes, reasons=reasons)

    def _build_cache_key(self, commit: str, target: str) -> list[object]:
        if commit not in self._tree_by_commit:
            self._tree_by_commit[commit] = str(list_trees(self._local, self._repo, [commit])[0])
        tree = self._tree_by_commit[commit]
        plan, settings = self._plan, self._check_settings.get(target)
        return [
            _RULES_VERSION,
            tree,
            plan.pytest,
            plan.args,
            plan.paths,
            target,
            settings,
            self._rooms.cache_key,
        ]

    def _find_cached(self, key: object) -> SuiteResult | None:
        row = self._cache.find(key)
        if not isinstance(row, dict):
            return None
        self.counts["cached"] += 1
        return SuiteResult(**row)

    def _run_batch(self, commit: str, batch: Sequence[str]) -> dict[str, SuiteResult]:
        """Return the result of each target in one run. A target that did not run counts as failed."""
        if WHOLE_SUITE in batch:
            return {WHOLE_SUITE: self._check_collection(commit)}
        if batch[0].startswith(CHECK_PREFIX):
            return {batch[0]: self._run_check(commit, batch[0])}
        result = self._run_in_shards(commit, batch)
        results = {}
        for target in batch:
            own_outcomes = _select_outcomes(result, target)
            failed = [test for test, outcome in own_outcomes.items() if outcome not in _PASSING_OUTCOMES]
            outcome = "fail" if failed else own_outcomes.get(target, "pass" if own_outcomes else "missing")
            why = (
                ""
                if outcome in _PASSING_OUTCOMES
                else result.reasons.get(failed[0] if failed else target) or _explain_not_run(result, target)
            )
            results[target] = SuiteResult(outcomes={target: outcome}, reasons={target: why} if why else {})
        return results

    def _check_collection(self, commit: str) -> SuiteResult:
        """Return whether the tests can be collected."""
        collected = self._collect_tests(commit)
        why = first_line(collected.errors[0]) if collected.errors else ""
        return SuiteResult(
            outcomes={WHOLE_SUITE: "error" if why else "pass"}, reasons={WHOLE_SUITE: why} if why else {}
        )

    def _run_check(self, commit: str, target: str) -> SuiteResult:
        """Run one of the other checks."""
        check = self.checks[target.removeprefix(CHECK_PREFIX)]
        is_passing, output = self._run_in_room(commit, lambda room: check(commit, room))
        return SuiteResult(
            outcomes={target: "pass" if is_passing else "fail"}, reasons={target: output} if output else {}
        )

    # Running

    def _run_in_shards(self, commit: str, targets: Sequence[str]) -> SuiteResult:
        """Run all targets, in several clean rooms at the same time if they take long."""
        groups = self._group_by_duration(targets)
        if len(groups) < 2:
            return self._run_despite_crashes(commit, targets)
        merged = SuiteResult(outcomes={})
        with concurrent.futures.ThreadPoolExecutor(len(groups)) as threads:
            for result in threads.map(lambda group: self._run_despite_crashes(commit, group), groups):
                merged = _merge_results(merged, result)
        return merged

    def _group_by_duration(self, targets: Sequence[str]) -> list[list[str]]:
        """Return the targets in groups that take about the same time."""
        known = dict(self._seconds)
        for test, seconds in self._seconds.items():
            path = test.partition("::")[0]
            known[path] = known.get(path, 0.0) + seconds
        durations = {target: known.get(target, 0.0) for target in targets}
        count = self._count_shards(sum(durations.values()))
        if count < 2:
            return [list(targets)]
        tests = [TestFunction(id=target, ids=[], path=target.partition("::")[0], name="") for target in targets]
        return [[test.id for test in group] for group in split_tests(tests, durations, count)]

    def _count_shards(self, seconds: float) -> int:
        """Return in how many clean rooms tests that take so long should run at the same time."""
        least = _MIN_HOST_SECONDS if self._rooms.creates_hosts else _MIN_SHARD_SECONDS
        return max(1, min(self._rooms.max_rooms, int(seconds / least)))

    def _run_despite_crashes(self, commit: str, targets: Sequence[str]) -> SuiteResult:
        """Run all targets, even if one of them crashes pytest or does not exist."""
        merged, remaining, crashes = SuiteResult(outcomes={}), list(targets), 0
        while remaining:
            batch = _take_fitting(remaining)
            remaining = remaining[len(batch) :]
            result = self._run_pytest(commit, batch)
            if _NOT_FOUND_TEXT in result.reasons.get(WHOLE_SUITE, "") and len(batch) > 1:
                names = self._list_tests(commit)
                files = {name.partition("::")[0] for name in names}
                existing = [name for name in batch if name in files or name in names]
                remaining = [*(existing if len(existing) < len(batch) else []), *remaining]
                continue
            merged = _merge_results(merged, result)
            rest = [target for target in batch if not _select_outcomes(result, target)]
            if _is_truncated(result) and len(rest) < len(batch) and crashes < _MAX_CRASHES:
                remaining, crashes = [*rest, *remaining], crashes + 1
        return merged

    def _list_tests(self, commit: str) -> list[str]:
        """Return all tests that can be collected."""
        return [test.id for test in self._collect_tests(commit).tests]

    def _collect_tests(self, commit: str) -> CollectedTests:
        with self._count_lock:
            self.counts["processes"] += 1
        return self._run_in_room(commit, lambda room: self._runner.collect(room, self._plan.paths))

    def _run_pytest(self, commit: str, targets: Sequence[str]) -> SuiteResult:
        expected = [self._seconds.get(target, 0.0) for target in targets] or list(self._seconds.values())
        timeout = self._plan.test_timeout + 4 * sum(expected)
        request = SuiteRequest(targets=list(targets), timeout=timeout, seed=0)
        suite_run = self._run_in_room(commit, lambda room: self._runner.run_suite(room, request))
        result = _make_result(suite_run)
        with self._count_lock:
            self.isolations.add(suite_run.whole.isolation)
            self.counts["processes"] += 1
            self.counts["tests"] += len(result.outcomes)
            self.pytest_seconds += suite_run.whole.seconds
        return result

    def _run_in_room(self, commit: str, action: Callable[[CleanRoom], Result]) -> Result:
        """Return the result of an action in a clean room of the commit, and repeat it once if the room breaks."""

        def run(room: CleanRoom) -> Result:
            room.env = _NO_BYTECODE_ENV
            return action(room)

        return run_in_room(self._rooms, commit, run)


def strip_parameters(node: str) -> str:
    """Return the test of a node id, without its parameters."""
    path, colons, name = node.partition("::")
    return path + colons + name.partition("[")[0]


def _take_fitting(targets: Sequence[str]) -> list[str]:
    """Return the first targets that fit on one command line."""
    if targets[0] == WHOLE_SUITE or targets[0].startswith(CHECK_PREFIX):
        return [targets[0]]
    batch: list[str] = []
    length = 0
    for target in targets:
        length += len(target) + 4
        if batch and (length > _MAX_ARG_CHARACTERS or target.startswith(CHECK_PREFIX)):
            break
        batch.append(target)
    return batch


def _make_result(suite_run: SuiteRun) -> SuiteResult:
    """Return the outcome of each test.

    The worst of its parameters counts, and a test that was interrupted has failed.
    """
    run = suite_run.whole
    outcomes: dict[str, str] = {}
    reasons: dict[str, str] = {}
    for node, outcome in run.ids.items():
        test = strip_parameters(node)
        if test not in outcomes or (outcomes[test] in _PASSING_OUTCOMES and outcome not in _PASSING_OUTCOMES):
            outcomes[test] = outcome
        elif outcomes[test] == "skip" and outcome == "pass":
            outcomes[test] = "pass"
    for failure in run.failures:
        test = _get_failed_target(failure.id)
        if failure.when == "collect" or test not in outcomes:
            outcomes[test] = "error"
        message = f"{failure.exception}: {first_line(failure.message)}".strip(": ") or first_line(failure.text)
        reasons.setdefault(test, message[:500])
    if run.outcome in ("timeout", "crash"):
        for node in suite_run.started[-1:]:
            if run.ids.get(node, "pass") in _PASSING_OUTCOMES or run.outcome == "timeout":
                outcomes[strip_parameters(node)], reasons[strip_parameters(node)] = run.outcome, run.why
        if all(outcome in _PASSING_OUTCOMES for outcome in outcomes.values()):
            outcomes[WHOLE_SUITE], reasons[WHOLE_SUITE] = run.outcome, run.why
    elif run.outcome == "error" and not any(outcome not in _PASSING_OUTCOMES for outcome in outcomes.values()):
        outcomes[WHOLE_SUITE], reasons[WHOLE_SUITE] = "error", run.why
    return SuiteResult(outcomes=outcomes, reasons=reasons)


def _select_outcomes(result: SuiteResult, target: str) -> dict[str, str]:
    """Return the outcome of a test, or of the tests in a file."""
    return {
        test: outcome for test, outcome in result.outcomes.items() if test == target or test.startswith(f"{target}::")
    }


def _merge_results(first: SuiteResult, second: SuiteResult) -> SuiteResult:
    return SuiteResult(outcomes=first.outcomes | second.outcomes, reasons=first.reasons | second.reasons)


def _is_truncated(result: SuiteResult) -> bool:
    """True when pytest itself ended too early."""
    return any(outcome in ("crash", "timeout") for outcome in result.outcomes.values())


def _is_red(result: SuiteResult, target: str) -> bool:
    """True when a test, or one in a file, failed or did not run."""
    outcomes = _select_outcomes(result, target).values()
    return not outcomes or any(outcome not in _PASSING_OUTCOMES for outcome in outcomes)


def _get_failed_target(name: str) -> str:
    """Return the target of a failure: a test, a file, or the whole suite."""
    target = re.sub(r"^\./", "", strip_parameters(name))
    return target if target.partition("::")[0].endswith(".py") else WHOLE_SUITE


def _explain_not_run(result: SuiteResult, target: str) -> str:
    """Return why a test did not run: its file, or the whole suite, could not be collected."""
    return result.reasons.get(target.partition("::")[0]) or result.reasons.get(WHOLE_SUITE) or "it did not run"
