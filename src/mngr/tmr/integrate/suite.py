"""The suite at a commit: all of it or some of it in one pytest, in a clean room that moves from commit to commit; what a tree gave is kept."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool, CommandOutcome
from mngr.tmr.cleanroom.test_run import PROBE_ARGS, TestFunction, TestRun, first_line, read_test_run
from mngr.tmr.commits.trees import GIT_SAFE_ARGS, diff_trees, list_trees
from mngr.tmr.plan import RunPlan
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.result_cache import ResultCache

TreeCheck = Callable[[str, CleanRoom], tuple[bool, str]]  # at a commit: whether it holds, and what it said


_RULES_VERSION = 2  # goes up when the same run may now be judged otherwise
_MAX_ARG_CHARACTERS = 60_000  # characters of names that are given to one pytest
_PASSING_OUTCOMES = ("pass", "skip")
# Python takes what it compiled for current while a source has the same second and size, and here commits follow each other faster.
_NO_BYTECODE_ENV = {"PYTHONDONTWRITEBYTECODE": "1"}
WHOLE_SUITE = ""  # stands for the suite as a whole, where not even its tests can be found
_KEEP_GOING_ARGS = ("--continue-on-collection-errors", "--maxfail=0")
_NOT_FOUND_TEXT = " not found: "  # in what pytest says of a name that leads nowhere
_MAX_CRASHES = 20  # times that we go on after a test with which pytest itself has ended
CHECK_PREFIX = "check:"  # before the name of one of the project's other checks


class SuiteResult(Struct):
    """How tests of a tree ended; a file that cannot be read as tests is one of them."""

    outcomes: dict[str, str]
    whys: dict[str, str] = {}

    @property
    def failures(self) -> dict[str, str]:
        """What failed, and why."""
        return {
            test: self.whys.get(test, outcome)
            for test, outcome in self.outcomes.items()
            if outcome not in _PASSING_OUTCOMES
        }


class Suite:
    """The tests of a project. One at a time."""

    def __init__(
        self,
        local: Host,
        repo: str,
        plan: RunPlan,
        rooms: CleanRoomPool,
        shelf: ResultCache,
        seconds: Mapping[str, float],
    ) -> None:
        self._local, self._repo, self._plan, self._rooms, self._cache = local, repo, plan, rooms, shelf
        self._seconds = seconds  # what each test takes, as far as that is known
        self.expected_seconds = sum(seconds.values())
        self.checks: dict[str, TreeCheck] = {}  # what else must hold, by name
        self._check_settings: dict[str, list[str]] = {}  # of these
        self._stack = contextlib.ExitStack()
        self._tree_by_commit: dict[str, str] = {}  # of commits
        self._room: CleanRoom | None = None
        self.counts = {"processes": 0, "tests": 0, "cached": 0}
        self.pytest_seconds = 0.0  # seconds of pytest

    def close(self) -> None:
        """Give the room back, and the host that it is on if it was made for it."""
        self._stack.close()
        self._rooms.release_hosts()

    def add_check(self, name: str, check: TreeCheck, settings: list[str]) -> None:
        """Something else that must hold; `settings` is what its answer depends on beside the tree."""
        self.checks[name] = check
        self._check_settings[CHECK_PREFIX + name] = settings

    def list_changed_paths(self, pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
        """The files in which the two commits of each pair differ."""
        trees = [str(tree) for tree in list_trees(self._local, self._repo, [name for pair in pairs for name in pair])]
        found = diff_trees(self._local, self._repo, list(zip(trees[::2], trees[1::2], strict=True)))
        return [{row.path for row in rows} for rows in found]

    def run_by_imports(self, commit: str, files: Mapping[str, Sequence[str] | None]) -> SuiteResult:
        """Tests, each with the files that it imports if they are known: as at a commit, or as where these files were the same."""
        said = git.run_checked(self._local, self._repo, *GIT_SAFE_ARGS, "ls-tree", "-r", "-z", commit) if files else ""
        pairs = (row.split("\t", 1) for row in said.split("\0") if "\t" in row)
        rows = {path: about for about, path in pairs}
        keys = {
            test: [_RULES_VERSION, self._plan.pytest, self._plan.args, test, [[path, rows.get(path)] for path in some], self._rooms.cache_key]
            for test, some in files.items()
            if some is not None
        }  # fmt: skip
        known = {test: found for test, key in keys.items() if (found := self._find_cached(key)) is not None}
        tried = self.run_tests(commit, files.keys() - known)
        for test in keys.keys() - known:
            own = {test: tried.whys[test]} if test in tried.whys else {}
            known[test] = SuiteResult(outcomes={test: tried.outcomes[test]}, whys=own)
            self._cache.put(keys[test], known[test].to_dict())
        outcomes = {test: outcome for found in known.values() for test, outcome in found.outcomes.items()}
        whys = {test: why for found in known.values() for test, why in found.whys.items()}
        return SuiteResult(outcomes={**tried.outcomes, **outcomes}, whys={**tried.whys, **whys})

    def run_all(self, commit: str) -> SuiteResult:
        """All tests, as the project itself would run them."""
        key = self._build_cache_key(commit, "*")
        known = self._find_cached(key)
        if known is not None:
            return known
        tried = self.rerun_all(commit)
        self._cache.put(key, tried.to_dict())
        return tried

    def rerun_all(self, commit: str) -> SuiteResult:
        """All tests once more, whatever is known."""
        tried = self._run_pytest(commit, self._plan.paths)
        if not _is_truncated(tried):
            return tried
        rest = [name for name in self._list_tests(commit) if name not in tried.outcomes]
        return _merge_results(tried, self._run_despite_crashes(commit, rest))

    def list_stable(self, commit: str, tests: Iterable[str], *, red: bool, times: int = 2) -> set[str]:
        """Of tests that were seen to be red at a commit, or green, those that are so every time."""
        left = {test for test in tests if test != WHOLE_SUITE and not test.startswith(CHECK_PREFIX)}
        others = set(tests) - left
        keys = {test: self._build_cache_key(commit, f"steady: {test}") for test in left}
        known = {test: found for test in left if (found := self._find_cached(keys[test])) is not None}
        fresh = left - known.keys()
        for _ in range(times):
            if fresh:
                tried = self._run_despite_crashes(commit, sorted(fresh))
                fresh -= {test for test in fresh if _is_red(tried, test) != red}
        for test in left - known.keys():
            known[test] = SuiteResult(outcomes={test: "steady" if test in fresh else "flaky"})
            self._cache.put(keys[test], known[test].to_dict())
        return others | {test for test in left if known[test].outcomes[test] == "steady"}

    def run_tests(self, commit: str, targets: Iterable[str]) -> SuiteResult:
        """These tests or files; each counts as it ends in a pytest that runs only those that were not known."""
        wanted = sorted(set(targets))
        outcomes: dict[str, str] = {}
        whys: dict[str, str] = {}
        fresh = []
        for target in wanted:
            known = self._find_cached(self._build_cache_key(commit, target))
            if known is None:
                fresh.append(target)
            else:
                outcomes |= known.outcomes
                whys |= known.whys
        while fresh:
            batch = _take_fitting(fresh)
            fresh = fresh[len(batch) :]
            for target, tried in self._run_batch(commit, batch).items():
                self._cache.put(self._build_cache_key(commit, target), tried.to_dict())
                outcomes |= tried.outcomes
                whys |= tried.whys
        return SuiteResult(outcomes=outcomes, whys=whys)

    def _build_cache_key(self, commit: str, what: str) -> list[object]:
        if commit not in self._tree_by_commit:
            self._tree_by_commit[commit] = str(list_trees(self._local, self._repo, [commit])[0])
        tree = self._tree_by_commit[commit]
        plan, settings = self._plan, self._check_settings.get(what)
        return [
            _RULES_VERSION,
            tree,
            plan.pytest,
            plan.args,
            plan.paths,
            what,
            settings,
            self._rooms.cache_key,
        ]

    def _find_cached(self, key: object) -> SuiteResult | None:
        found = self._cache.find(key)
        if not isinstance(found, dict):
            return None
        self.counts["cached"] += 1
        return SuiteResult(**found)

    def _run_batch(self, commit: str, batch: Sequence[str]) -> dict[str, SuiteResult]:
        """Each target's own part of one run; what was asked for and did not run is red."""
        if WHOLE_SUITE in batch:
            return {WHOLE_SUITE: self._check_collection(commit)}
        if batch[0].startswith(CHECK_PREFIX):
            return {batch[0]: self._run_check(commit, batch[0])}
        tried = self._run_despite_crashes(commit, batch)
        found = {}
        for target in batch:
            own = _select_outcomes(tried, target)
            bad = [test for test, outcome in own.items() if outcome not in _PASSING_OUTCOMES]
            outcome = "fail" if bad else own.get(target, "pass" if own else "missing")
            why = (
                ""
                if outcome in _PASSING_OUTCOMES
                else tried.whys.get(bad[0] if bad else target) or _explain_not_run(tried, target)
            )
            found[target] = SuiteResult(outcomes={target: outcome}, whys={target: why} if why else {})
        return found

    def _check_collection(self, commit: str) -> SuiteResult:
        """Whether the tests can be found at all."""
        plan = self._plan
        found = collect_tests(self._get_room(commit), plan.pytest, plan.paths, plan.args)
        self.counts["processes"] += 1
        why = first_line(found.errors[0]) if found.errors else ""
        return SuiteResult(outcomes={WHOLE_SUITE: "error" if why else "pass"}, whys={WHOLE_SUITE: why} if why else {})

    def _run_check(self, commit: str, target: str) -> SuiteResult:
        """One of the other checks."""
        holds, said = self.checks[target.removeprefix(CHECK_PREFIX)](commit, self._get_room(commit))
        return SuiteResult(outcomes={target: "pass" if holds else "fail"}, whys={target: said} if said else {})

    # Running

    def _run_despite_crashes(self, commit: str, targets: Sequence[str]) -> SuiteResult:
        """These, also where pytest itself ends with one of them, or will not begin because one is not there."""
        found, left, cuts = SuiteResult(outcomes={}), list(targets), 0
        while left:
            batch = _take_fitting(left)
            left = left[len(batch) :]
            tried = self._run_pytest(commit, batch)
            if _NOT_FOUND_TEXT in tried.whys.get(WHOLE_SUITE, "") and len(batch) > 1:
                names = self._list_tests(commit)
                files = {name.partition("::")[0] for name in names}
                there = [name for name in batch if name in files or name in names]
                left = [*(there if len(there) < len(batch) else []), *left]
                continue
            found = _merge_results(found, tried)
            rest = [target for target in batch if not _select_outcomes(tried, target)]
            if _is_truncated(tried) and len(rest) < len(batch) and cuts < _MAX_CRASHES:
                left, cuts = [*rest, *left], cuts + 1
        return found

    def _list_tests(self, commit: str) -> list[str]:
        """All tests there are, as far as they can be found."""
        plan = self._plan
        self.counts["processes"] += 1
        return [test.id for test in collect_tests(self._get_room(commit), plan.pytest, plan.paths, plan.args).tests]

    def _run_pytest(self, commit: str, targets: Sequence[str]) -> SuiteResult:
        plan = self._plan
        words = [*plan.pytest, *PROBE_ARGS, *plan.args, *_KEEP_GOING_ARGS, *targets]
        expected = [self._seconds.get(target, 0.0) for target in targets] or list(self._seconds.values())
        timeout = plan.test_timeout + 4 * sum(expected)
        ran = self._run_command(commit, words, timeout)
        assert self._room is not None
        run = read_test_run(TestFunction(id=WHOLE_SUITE, ids=[], path="", name=""), ran, "", self._room.inner_work_dir)
        tried = _make_result(ran, run)
        self.counts["processes"] += 1
        self.counts["tests"] += len(tried.outcomes)
        self.pytest_seconds += ran.seconds
        return tried

    def _run_command(self, commit: str, words: list[str], timeout: float) -> CommandOutcome:
        for last in (False, True):
            try:
                return self._get_room(commit).run(
                    words, env={"PYTHONHASHSEED": "0"}, timeout=timeout, probe={"seed": 0}
                )
            except CleanRoomBroken:
                self._room = None
                self._stack.close()
                if last:
                    raise
        raise AssertionError

    def _get_room(self, commit: str) -> CleanRoom:
        """The room, at a commit."""
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.acquire(commit))
            self._room.env = _NO_BYTECODE_ENV
        else:
            self._room.switch_commit(commit)
        return self._room


def strip_parameters(node: str) -> str:
    """The test of which a node is one set of parameters."""
    path, colons, name = node.partition("::")
    return path + colons + name.partition("[")[0]


def _take_fitting(targets: Sequence[str]) -> list[str]:
    """As many names as one command line takes."""
    if targets[0] == WHOLE_SUITE or targets[0].startswith(CHECK_PREFIX):
        return [targets[0]]
    found: list[str] = []
    length = 0
    for target in targets:
        length += len(target) + 4
        if found and (length > _MAX_ARG_CHARACTERS or target.startswith(CHECK_PREFIX)):
            break
        found.append(target)
    return found


def _make_result(ran: CommandOutcome, run: TestRun) -> SuiteResult:
    """What each test did; the worst of its parameters counts, and one that was under way when all ended is red."""
    outcomes: dict[str, str] = {}
    whys: dict[str, str] = {}
    for node, outcome in run.ids.items():
        test = strip_parameters(node)
        if test not in outcomes or (outcomes[test] in _PASSING_OUTCOMES and outcome not in _PASSING_OUTCOMES):
            outcomes[test] = outcome
        elif outcomes[test] == "skip" and outcome == "pass":
            outcomes[test] = "pass"
    for failure in run.failures:
        test = _get_target(failure.id)
        if failure.when == "collect" or test not in outcomes:
            outcomes[test] = "error"
        words = f"{failure.exception}: {first_line(failure.message)}".strip(": ") or first_line(failure.text)
        whys.setdefault(test, words[:500])
    if run.outcome in ("timeout", "crash"):
        begun = [str(row.get("id")) for row in ran.probe_rows if row["row"] == "begin"]
        for node in begun[-1:]:
            if run.ids.get(node, "pass") in _PASSING_OUTCOMES or run.outcome == "timeout":
                outcomes[strip_parameters(node)], whys[strip_parameters(node)] = run.outcome, run.why
        if all(outcome in _PASSING_OUTCOMES for outcome in outcomes.values()):
            outcomes[WHOLE_SUITE], whys[WHOLE_SUITE] = run.outcome, run.why
    elif run.outcome == "error" and not any(outcome not in _PASSING_OUTCOMES for outcome in outcomes.values()):
        outcomes[WHOLE_SUITE], whys[WHOLE_SUITE] = "error", run.why
    return SuiteResult(outcomes=outcomes, whys=whys)


def _select_outcomes(tried: SuiteResult, target: str) -> dict[str, str]:
    """How a test, or those of a file, ended."""
    return {
        test: outcome for test, outcome in tried.outcomes.items() if test == target or test.startswith(f"{target}::")
    }


def _merge_results(one: SuiteResult, other: SuiteResult) -> SuiteResult:
    return SuiteResult(outcomes=one.outcomes | other.outcomes, whys=one.whys | other.whys)


def _is_truncated(tried: SuiteResult) -> bool:
    """Whether pytest itself ended before its time."""
    return any(outcome in ("crash", "timeout") for outcome in tried.outcomes.values())


def _is_red(tried: SuiteResult, target: str) -> bool:
    """Whether a test, or one of a file, failed or did not run."""
    own = _select_outcomes(tried, target).values()
    return not own or any(outcome not in _PASSING_OUTCOMES for outcome in own)


def _get_target(name: str) -> str:
    """What a failure is about: a test, a file, or everything."""
    found = re.sub(r"^\./", "", strip_parameters(name))
    return found if found.partition("::")[0].endswith(".py") else WHOLE_SUITE


def _explain_not_run(tried: SuiteResult, target: str) -> str:
    """Why one did not run: its file, or everything, could not be read."""
    return tried.whys.get(target.partition("::")[0]) or tried.whys.get(WHOLE_SUITE) or "it did not run"
