"""The suite at a commit: all of it or some of it in one pytest, in a clean room that moves from commit to commit; what a tree gave is kept."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from mngr.base.model import Record
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.rooms import Broken, Ran, Room, Rooms
from mngr.tmr.cleanroom.test_run import PROBE, Test, TestRun, first_line, judge
from mngr.tmr.commits.trees import PLAIN, rows_of, trees_of
from mngr.tmr.plan import Plan
from mngr.tmr.prepare.collect import collect
from mngr.tmr.result_cache import Shelf

Check = Callable[[str, Room], tuple[bool, str]]  # at a commit: whether it holds, and what it said


_RULES = 2  # goes up when the same run may now be judged otherwise
_WORDS = 60_000  # characters of names that are given to one pytest
_GOOD = ("pass", "skip")
# Python takes what it compiled for current while a source has the same second and size, and here commits follow each other faster.
_NOTHING_COMPILED = {"PYTHONDONTWRITEBYTECODE": "1"}
ALL = ""  # stands for the suite as a whole, where not even its tests can be found
_ALL_OF_THEM = ("--continue-on-collection-errors", "--maxfail=0")
_GONE = " not found: "  # in what pytest says of a name that leads nowhere
_CUTS = 20  # times that we go on after a test with which pytest itself has ended
CHECK = "check:"  # before the name of one of the project's other checks


class Tried(Record):
    """How tests of a tree ended; a file that cannot be read as tests is one of them."""

    outcomes: dict[str, str]
    whys: dict[str, str] = {}

    @property
    def red(self) -> dict[str, str]:
        """What failed, and why."""
        return {
            test: self.whys.get(test, outcome)
            for test, outcome in self.outcomes.items()
            if outcome not in _GOOD
        }


class Suite:
    """The tests of a project. One at a time."""

    def __init__(
        self,
        local: Host,
        repo: str,
        plan: Plan,
        rooms: Rooms,
        shelf: Shelf,
        seconds: Mapping[str, float],
    ) -> None:
        self._local, self._repo, self._plan, self._rooms, self._shelf = local, repo, plan, rooms, shelf
        self._seconds = seconds  # what each test takes, as far as that is known
        self.expected = sum(seconds.values())
        self.checks: dict[str, Check] = {}  # what else must hold, by name
        self._settings: dict[str, list[str]] = {}  # of these
        self._stack = contextlib.ExitStack()
        self._trees: dict[str, str] = {}  # of commits
        self._room: Room | None = None
        self.counts = {"processes": 0, "tests": 0, "cached": 0}
        self.spent = 0.0  # seconds of pytest

    def close(self) -> None:
        """Give the room back, and the host that it is on if it was made for it."""
        self._stack.close()
        self._rooms.close()

    def also(self, name: str, check: Check, settings: list[str]) -> None:
        """Something else that must hold; `settings` is what its answer depends on beside the tree."""
        self.checks[name] = check
        self._settings[CHECK + name] = settings

    def paths(self, pairs: Sequence[tuple[str, str]]) -> list[set[str]]:
        """The files in which the two commits of each pair differ."""
        trees = [
            str(tree) for tree in trees_of(self._local, self._repo, [name for pair in pairs for name in pair])
        ]
        found = rows_of(self._local, self._repo, list(zip(trees[::2], trees[1::2], strict=True)))
        return [{row.path for row in rows} for rows in found]

    def by_files(self, commit: str, files: Mapping[str, Sequence[str] | None]) -> Tried:
        """Tests, each with the files that it imports if they are known: as at a commit, or as where these files were the same."""
        said = git.must(self._local, self._repo, *PLAIN, "ls-tree", "-r", "-z", commit) if files else ""
        pairs = (row.split("\t", 1) for row in said.split("\0") if "\t" in row)
        rows = {path: about for about, path in pairs}
        keys = {
            test: [_RULES, self._plan.pytest, self._plan.args, test, [[path, rows.get(path)] for path in some], self._rooms.about]
            for test, some in files.items()
            if some is not None
        }  # fmt: skip
        known = {test: found for test, key in keys.items() if (found := self._known(key)) is not None}
        tried = self.some(commit, files.keys() - known)
        for test in keys.keys() - known:
            own = {test: tried.whys[test]} if test in tried.whys else {}
            known[test] = Tried(outcomes={test: tried.outcomes[test]}, whys=own)
            self._shelf.put(keys[test], known[test].to_dict())
        outcomes = {test: outcome for found in known.values() for test, outcome in found.outcomes.items()}
        whys = {test: why for found in known.values() for test, why in found.whys.items()}
        return Tried(outcomes={**tried.outcomes, **outcomes}, whys={**tried.whys, **whys})

    def whole(self, commit: str) -> Tried:
        """All tests, as the project itself would run them."""
        key = self._key(commit, "*")
        known = self._known(key)
        if known is not None:
            return known
        tried = self.again(commit)
        self._shelf.put(key, tried.to_dict())
        return tried

    def again(self, commit: str) -> Tried:
        """All tests once more, whatever is known."""
        tried = self._run(commit, self._plan.paths)
        if not _is_cut(tried):
            return tried
        rest = [name for name in self._names(commit) if name not in tried.outcomes]
        return _joined(tried, self._each(commit, rest))

    def steady(self, commit: str, tests: Iterable[str], *, red: bool, times: int = 2) -> set[str]:
        """Of tests that were seen to be red at a commit, or green, those that are so every time."""
        left = {test for test in tests if test != ALL and not test.startswith(CHECK)}
        others = set(tests) - left
        keys = {test: self._key(commit, f"steady: {test}") for test in left}
        known = {test: found for test in left if (found := self._known(keys[test])) is not None}
        fresh = left - known.keys()
        for _ in range(times):
            if fresh:
                tried = self._each(commit, sorted(fresh))
                fresh -= {test for test in fresh if _is_red(tried, test) != red}
        for test in left - known.keys():
            known[test] = Tried(outcomes={test: "steady" if test in fresh else "flaky"})
            self._shelf.put(keys[test], known[test].to_dict())
        return others | {test for test in left if known[test].outcomes[test] == "steady"}

    def some(self, commit: str, targets: Iterable[str]) -> Tried:
        """These tests or files; each counts as it ends in a pytest that runs only those that were not known."""
        wanted = sorted(set(targets))
        outcomes: dict[str, str] = {}
        whys: dict[str, str] = {}
        fresh = []
        for target in wanted:
            known = self._known(self._key(commit, target))
            if known is None:
                fresh.append(target)
            else:
                outcomes |= known.outcomes
                whys |= known.whys
        while fresh:
            batch = _fitting(fresh)
            fresh = fresh[len(batch) :]
            for target, tried in self._batch(commit, batch).items():
                self._shelf.put(self._key(commit, target), tried.to_dict())
                outcomes |= tried.outcomes
                whys |= tried.whys
        return Tried(outcomes=outcomes, whys=whys)

    def _key(self, commit: str, what: str) -> list[object]:
        if commit not in self._trees:
            self._trees[commit] = str(trees_of(self._local, self._repo, [commit])[0])
        tree = self._trees[commit]
        plan, settings = self._plan, self._settings.get(what)
        return [_RULES, tree, plan.pytest, plan.args, plan.paths, what, settings, self._rooms.about]

    def _known(self, key: object) -> Tried | None:
        found = self._shelf.get(key)
        if not isinstance(found, dict):
            return None
        self.counts["cached"] += 1
        return Tried(**found)

    def _batch(self, commit: str, batch: Sequence[str]) -> dict[str, Tried]:
        """Each target's own part of one run; what was asked for and did not run is red."""
        if ALL in batch:
            return {ALL: self._collected(commit)}
        if batch[0].startswith(CHECK):
            return {batch[0]: self._checked(commit, batch[0])}
        tried = self._each(commit, batch)
        found = {}
        for target in batch:
            own = _own(tried, target)
            bad = [test for test, outcome in own.items() if outcome not in _GOOD]
            outcome = "fail" if bad else own.get(target, "pass" if own else "missing")
            why = (
                "" if outcome in _GOOD else tried.whys.get(bad[0] if bad else target) or _rest(tried, target)
            )
            found[target] = Tried(outcomes={target: outcome}, whys={target: why} if why else {})
        return found

    def _collected(self, commit: str) -> Tried:
        """Whether the tests can be found at all."""
        plan = self._plan
        found = collect(self._at(commit), plan.pytest, plan.paths, plan.args)
        self.counts["processes"] += 1
        why = first_line(found.errors[0]) if found.errors else ""
        return Tried(outcomes={ALL: "error" if why else "pass"}, whys={ALL: why} if why else {})

    def _checked(self, commit: str, target: str) -> Tried:
        """One of the other checks."""
        holds, said = self.checks[target.removeprefix(CHECK)](commit, self._at(commit))
        return Tried(outcomes={target: "pass" if holds else "fail"}, whys={target: said} if said else {})

    # Running

    def _each(self, commit: str, targets: Sequence[str]) -> Tried:
        """These, also where pytest itself ends with one of them, or will not begin because one is not there."""
        found, left, cuts = Tried(outcomes={}), list(targets), 0
        while left:
            batch = _fitting(left)
            left = left[len(batch) :]
            tried = self._run(commit, batch)
            if _GONE in tried.whys.get(ALL, "") and len(batch) > 1:
                names = self._names(commit)
                files = {name.partition("::")[0] for name in names}
                there = [name for name in batch if name in files or name in names]
                left = [*(there if len(there) < len(batch) else []), *left]
                continue
            found = _joined(found, tried)
            rest = [target for target in batch if not _own(tried, target)]
            if _is_cut(tried) and len(rest) < len(batch) and cuts < _CUTS:
                left, cuts = [*rest, *left], cuts + 1
        return found

    def _names(self, commit: str) -> list[str]:
        """All tests there are, as far as they can be found."""
        plan = self._plan
        self.counts["processes"] += 1
        return [test.id for test in collect(self._at(commit), plan.pytest, plan.paths, plan.args).tests]

    def _run(self, commit: str, targets: Sequence[str]) -> Tried:
        plan = self._plan
        words = [*plan.pytest, *PROBE, *plan.args, *_ALL_OF_THEM, *targets]
        expected = [self._seconds.get(target, 0.0) for target in targets] or list(self._seconds.values())
        timeout = plan.test_timeout + 4 * sum(expected)
        ran = self._ran(commit, words, timeout)
        assert self._room is not None
        run = judge(Test(id=ALL, ids=[], path="", name=""), ran, "", self._room.place)
        tried = _tried(ran, run)
        self.counts["processes"] += 1
        self.counts["tests"] += len(tried.outcomes)
        self.spent += ran.seconds
        return tried

    def _ran(self, commit: str, words: list[str], timeout: float) -> Ran:
        for last in (False, True):
            try:
                return self._at(commit).run(
                    words, env={"PYTHONHASHSEED": "0"}, timeout=timeout, probe={"seed": 0}
                )
            except Broken:
                self._room = None
                self._stack.close()
                if last:
                    raise
        raise AssertionError

    def _at(self, commit: str) -> Room:
        """The room, at a commit."""
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.room(commit))
            self._room.env = _NOTHING_COMPILED
        else:
            self._room.move(commit)
        return self._room


def test_of(node: str) -> str:
    """The test of which a node is one set of parameters."""
    path, colons, name = node.partition("::")
    return path + colons + name.partition("[")[0]


def _fitting(targets: Sequence[str]) -> list[str]:
    """As many names as one command line takes."""
    if targets[0] == ALL or targets[0].startswith(CHECK):
        return [targets[0]]
    found: list[str] = []
    length = 0
    for target in targets:
        length += len(target) + 4
        if found and (length > _WORDS or target.startswith(CHECK)):
            break
        found.append(target)
    return found


def _tried(ran: Ran, run: TestRun) -> Tried:
    """What each test did; the worst of its parameters counts, and one that was under way when all ended is red."""
    outcomes: dict[str, str] = {}
    whys: dict[str, str] = {}
    for node, outcome in run.ids.items():
        test = test_of(node)
        if test not in outcomes or (outcomes[test] in _GOOD and outcome not in _GOOD):
            outcomes[test] = outcome
        elif outcomes[test] == "skip" and outcome == "pass":
            outcomes[test] = "pass"
    for failure in run.failures:
        test = _place(failure.id)
        if failure.when == "collect" or test not in outcomes:
            outcomes[test] = "error"
        words = f"{failure.exception}: {first_line(failure.message)}".strip(": ") or first_line(failure.text)
        whys.setdefault(test, words[:500])
    if run.outcome in ("timeout", "crash"):
        begun = [str(row.get("id")) for row in ran.rows if row["row"] == "begin"]
        for node in begun[-1:]:
            if run.ids.get(node, "pass") in _GOOD or run.outcome == "timeout":
                outcomes[test_of(node)], whys[test_of(node)] = run.outcome, run.why
        if all(outcome in _GOOD for outcome in outcomes.values()):
            outcomes[ALL], whys[ALL] = run.outcome, run.why
    elif run.outcome == "error" and not any(outcome not in _GOOD for outcome in outcomes.values()):
        outcomes[ALL], whys[ALL] = "error", run.why
    return Tried(outcomes=outcomes, whys=whys)


def _own(tried: Tried, target: str) -> dict[str, str]:
    """How a test, or those of a file, ended."""
    return {
        test: outcome
        for test, outcome in tried.outcomes.items()
        if test == target or test.startswith(f"{target}::")
    }


def _joined(one: Tried, other: Tried) -> Tried:
    return Tried(outcomes=one.outcomes | other.outcomes, whys=one.whys | other.whys)


def _is_cut(tried: Tried) -> bool:
    """Whether pytest itself ended before its time."""
    return any(outcome in ("crash", "timeout") for outcome in tried.outcomes.values())


def _is_red(tried: Tried, target: str) -> bool:
    """Whether a test, or one of a file, failed or did not run."""
    own = _own(tried, target).values()
    return not own or any(outcome not in _GOOD for outcome in own)


def _place(name: str) -> str:
    """What a failure is about: a test, a file, or everything."""
    found = re.sub(r"^\./", "", test_of(name))
    return found if found.partition("::")[0].endswith(".py") else ALL


def _rest(tried: Tried, target: str) -> str:
    """Why one did not run: its file, or everything, could not be read."""
    return tried.whys.get(target.partition("::")[0]) or tried.whys.get(ALL) or "it did not run"
