"""Differential mutation: small faults are put into the code that a test runs; what the old test caught, the new one must catch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool
from mngr.tmr.cleanroom.replaced_files import pack_text
from mngr.tmr.cleanroom.test_run import TEST_TIMEOUT, TestFunction, TestRun, build_command, run_test
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.legacy.mutants import Mutant, candidates, choose

_RULES_VERSION = 1  # goes up when the same run may now be judged otherwise
_OLD, _FAULTY = (
    40_000,
    25_000,
)  # characters that the old tests, and a file with a fault, may take on a command line
_SPARE, _TIMES = 5.0, 4.0  # seconds, and how often its own time, that a test may take with a fault
_FAILED_OUTCOMES = ("fail", "error", "timeout", "crash")


class MutantResult(Struct):
    """One fault, and whether each test saw it: caught | missed | flaky, or empty where nobody looked."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    old: str = ""
    new: str = ""


class MutationReport(Struct):
    """What the faults say about two versions of a test."""

    v: int = 1
    test: str
    seed: int
    state: str  # compared | new: there was no such test | alone: the old one cannot be run | same: it did not change | unmeasured
    reason: str = ""  # why it was not compared
    trials: list[MutantResult] = []
    runs: int = 0  # of the test, that were needed for this
    cached: int = 0  # that were not, because they were known
    seconds: float = 0.0
    left: int = 0  # faults for which there was no budget

    @property
    def newly_caught(self) -> list[MutantResult]:
        """What only the new test sees."""
        return [one for one in self.trials if (one.old, one.new) == ("missed", "caught")]

    @property
    def newly_missed(self) -> list[MutantResult]:
        """What only the old test saw."""
        return [one for one in self.trials if (one.old, one.new) == ("caught", "missed")]

    def findings(self) -> list[Finding]:
        """Each fault that is newly missed; and a test that sees none at all."""
        found = [self._make_finding(one) for one in self.newly_missed]
        seen = [one for one in self.trials if one.new]
        if len(seen) >= 3 and all(one.new == "missed" for one in seen):
            what = f"it passes with each of {len(seen)} faults in the code that it runs"
            found.append(Finding(rule="no-fault-caught", level="note", path=self.test.partition("::")[0], what=what))
        return found

    def _make_finding(self, one: MutantResult) -> Finding:
        what = f"with this fault ({one.kind}) the old {self.test} failed, and the new one passes"
        return Finding(
            rule="fault-newly-missed", level="refuse", path=one.path, line=one.line, what=what, old=one.before, new=one.after
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As it stands in a receipt."""
        named = {"newly_caught": self.newly_caught, "newly_missed": self.newly_missed}
        lists = {name: [one.to_dict() for one in rows] for name, rows in (named | {"trials": self.trials}).items()}
        return {**super().to_dict(), **lists}


class _MutationBudgetExhausted(Exception):
    """The budget is used up."""


def compare_versions(
    rooms: CleanRoomPool,
    pytest: Sequence[str],
    test: TestFunction,
    *,
    base: str,
    commit: str,
    source: str | None = None,
    old: TestFunction | None = None,
    n: int = 20,
    seed: int = 0,
    budget: int | None = None,
    args: Sequence[str] = (),
    timeout: float = TEST_TIMEOUT,
    shelf: ResultCache | None = None,
    room: Callable[[], CleanRoom] | None = None,
    known: TestRun | None = None,
) -> MutationReport:
    """Compare a test of `commit` with what it was at `base` (there perhaps by another name: `old`).

    At most `budget` runs of the test, else two and two for each of n faults, and one more for each that is newly missed.
    Both versions run on the code of `commit`, in one room: who holds one at that commit lends it. `known` is a run of
    the new test that passed, with its lines. What a shelf knows is not run again. Raises MngrError when the room is the trouble.
    """
    blank = MutationReport(test=test.id, seed=seed, state="unmeasured")
    was = old or test
    texts = _CommitFiles(rooms.fleet.context.local_host, source or rooms.repo, base, commit, {test.path, was.path})
    before = texts.read_old_files()
    if not before:
        return blank.replace(state="same", reason="neither the test nor what it shares with others was changed")
    with contextlib.ExitStack() as stack:
        bench = _VersionRunner(
            stack, rooms, texts, pytest, [*args, "-x"], (test, was), source, before, seed, shelf, budget
        )
        bench.borrow_room, bench.known_run = room, known
        try:
            found = _run_comparison(blank, bench, texts, n, timeout)
        except _MutationBudgetExhausted:
            found = blank.replace(reason=f"{budget} runs are not enough to begin")
        return found.replace(runs=bench.runs, cached=bench.cached, seconds=round(bench.seconds, 3))


def _run_comparison(
    blank: MutationReport, bench: _VersionRunner, texts: _CommitFiles, n: int, timeout: float
) -> MutationReport:
    new = bench.run_unchanged("new", timeout)
    if new["outcome"] != "pass":
        return blank.replace(reason=f"the new test does not pass: {new['why'] or new['outcome']}")
    state, reason, past = _run_old_test(bench, texts, timeout)
    lines = [new["lines"], past] if state == "compared" else [new["lines"]]
    sources = texts.read_files(path for found in lines for path in found if not texts.is_test_code(path))
    sources = {path: text for path, text in sources.items() if len(pack_text(text)) < _FAULTY}
    covered = {path: {line for found in lines for line in found.get(path, [])} for path in sources}
    mutants = choose(sources, covered, n, bench.seed)
    sees = [_list_reached_sites(sources, found) for found in lines]
    judged = _MutantComparison(bench, sources, sees, state == "compared").judge_all(mutants)
    trials = [one.replace(old="missed") if state == "new" else one for one in judged if one.new]
    return blank.replace(state=state, reason=reason, trials=trials, left=len(judged) - len(trials))


def _run_old_test(bench: _VersionRunner, texts: _CommitFiles, timeout: float) -> tuple[str, str, dict[str, list[int]]]:
    """The state, the reason if nothing is compared, and the lines that the old test runs."""
    test = bench.tests["old"]
    text = bench.before.get(test.path, "")
    if text is None or (text and f"def {test.name}(" not in text):
        return "new", "there was no such test", {}
    if sum(len(pack_text(one)) for one in bench.before.values() if one is not None) > _OLD:
        return "alone", "the old tests are too large to be put in the place of the new ones", {}
    past = bench.run_unchanged("old", timeout)
    if past["outcome"] != "pass":
        return "alone", f"the old test does not pass on this code: {past['why'] or past['outcome']}", {}
    return "compared", "", past["lines"]


def _list_reached_sites(sources: dict[str, str], lines: dict[str, list[int]]) -> set[tuple[str, int, int]]:
    """Where faults can be that these lines run into."""
    return {
        (one.path, one.start, one.end)
        for path, text in sources.items()
        for one in candidates(path, text, lines.get(path, []))
    }


class _MutantComparison:
    """Which of the two tests sees which fault, the most telling runs first."""

    def __init__(
        self,
        bench: _VersionRunner,
        sources: dict[str, str],
        sees: list[set[tuple[str, int, int]]],
        both: bool,
    ) -> None:
        self._runner, self._sources, self._both = bench, sources, both
        self._reached_sites = dict(zip(("new", "old"), sees, strict=False))

    def judge_all(self, mutants: list[Mutant]) -> list[MutantResult]:
        trials = [
            MutantResult(path=one.path, line=one.line, kind=one.kind, before=one.before, after=one.after)
            for one in mutants
        ]
        with contextlib.suppress(_MutationBudgetExhausted):
            for at, mutant in enumerate(mutants):
                new = self._judge_version("new", mutant)
                trials[at] = trials[at].replace(new=new)
                if new == "missed" and self._both:
                    trials[at] = trials[at].replace(**self._confirm_missed(mutant))
            for at, mutant in enumerate(mutants):
                if trials[at].new == "caught" and self._both:
                    trials[at] = trials[at].replace(old=self._judge_version("old", mutant))
        return trials

    def _judge_version(self, side: str, mutant: Mutant) -> str:
        return self._run_mutant(side, mutant) if self._is_reached(side, mutant) else "missed"

    def _is_reached(self, side: str, mutant: Mutant) -> bool:
        return (mutant.path, mutant.start, mutant.end) in self._reached_sites[side]

    def _run_mutant(self, side: str, mutant: Mutant, again: int = 0) -> str:
        return self._runner.run_mutant(side, mutant, mutant.apply(self._sources[mutant.path]), again)

    def _confirm_missed(self, mutant: Mutant) -> dict[str, str]:
        """The new test does not see it. If the old one did, that is an accusation, and is looked into once more."""
        old = self._judge_version("old", mutant)
        if old == "missed":
            return {"old": old}
        if not self._is_reached("new", mutant) and self._run_mutant("new", mutant) == "caught":
            return {"old": old, "new": "caught"}  # it gets there in a way that could not be traced
        return {"old": old if self._run_mutant("old", mutant, again=1) == "caught" else "flaky"}


class _VersionRunner:
    """Runs of the two versions, in one room that is made when the first is needed; what is known is not run."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        rooms: CleanRoomPool,
        texts: _CommitFiles,
        pytest: Sequence[str],
        args: list[str],
        tests: tuple[TestFunction, TestFunction],
        source: str | None,
        before: dict[str, str | None],
        seed: int,
        shelf: ResultCache | None,
        budget: int | None,
    ) -> None:
        self._stack, self._rooms, self._texts, self._source = stack, rooms, texts, source
        self._pytest, self._args, self._shelf, self._budget = pytest, args, shelf, budget
        self.tests = {"new": tests[0], "old": tests[1]}
        self.before, self.seed = before, seed
        self._room: CleanRoom | None = None
        self.borrow_room: Callable[[], CleanRoom] | None = None
        self.known_run: TestRun | None = None
        self._normal_seconds: dict[str, float] = {}
        self.runs, self.cached, self.seconds = 0, 0, 0.0

    def run_unchanged(self, side: str, timeout: float) -> dict[str, Any]:
        """A version without a fault: its outcome, and the lines that it runs."""
        if side == "new" and self.known_run is not None:
            found = _summarize_run(self.known_run)
        else:
            found = self._run_cached([side], lambda: _summarize_run(self._run_test(side, {}, timeout, trace=True)))
        self._normal_seconds[side] = float(found["seconds"])
        return found

    def run_mutant(self, side: str, mutant: Mutant, text: str, again: int) -> str:
        """A version with a fault: whether it is caught. A test that does not end any more has caught it."""
        limit = _SPARE + _TIMES * self._normal_seconds[side]
        edit = [mutant.path, mutant.start, mutant.end, mutant.new]
        found = self._run_cached(
            [side, edit, again], lambda: _summarize_run(self._run_test(side, {mutant.path: text}, limit))
        )
        return "caught" if found["outcome"] in _FAILED_OUTCOMES else "missed"

    def _run_cached(self, what: list[Any], run: Any) -> dict[str, Any]:
        side = str(what[0])
        words = build_command(self._pytest, self._args, self.tests[side].id)
        before = self._texts.fingerprint_before if side == "old" else ""
        key = ["mutation", _RULES_VERSION, self._texts.tree, before, self._rooms.cache_key, words, *what]
        found = None if self._shelf is None else self._shelf.find(key)
        if isinstance(found, dict) and {"outcome", "why", "seconds", "lines"} <= found.keys():
            self.cached += 1
            return found
        made: dict[str, Any] = run()
        if self._shelf is not None:
            self._shelf.put(key, made)
        return made

    def _run_test(self, side: str, files: dict[str, str | None], timeout: float, trace: bool = False) -> TestRun:
        if self._budget is not None and self.runs >= self._budget:
            raise _MutationBudgetExhausted
        self.runs += 1
        if side == "old":
            files = {**self.before, **files}
        for last in (False, True):
            try:
                run = run_test(
                    self._get_room(), self._pytest, self.tests[side], args=self._args, timeout=timeout, seed=self.seed,
                    trace=trace, files=files,
                )  # fmt: skip
                self.seconds += run.seconds
                return run
            except CleanRoomBroken:
                if last or self.borrow_room is not None:
                    raise
                self._stack.close()
                self._room = None
        raise AssertionError

    def _get_room(self) -> CleanRoom:
        if self.borrow_room is not None:
            return self.borrow_room()
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.acquire(self._texts.commit, self._source))
        return self._room


def _summarize_run(run: TestRun) -> dict[str, Any]:
    return {"outcome": run.outcome, "why": run.why, "seconds": run.seconds, "lines": run.lines}


class _CommitFiles:
    """The files of two commits, read from git."""

    def __init__(self, local: Host, repo: str, base: str, commit: str, own: set[str]) -> None:
        self._local, self._repo, self.commit, self._own = local, repo, commit, own
        self.tree = git.run_checked(local, repo, "rev-parse", f"{commit}^{{tree}}")
        rows = git.run_checked(local, repo, "diff", "--raw", "--no-renames", "--no-abbrev", "-z", base, commit).split(
            "\0"
        )
        changed = {path: about.split() for about, path in zip(rows[::2], rows[1::2], strict=False)}
        self._changed = {path: about for path, about in changed.items() if self._is_part_of_test(path, about)}
        self.fingerprint_before = " ".join(f"{path} {about[2]}" for path, about in sorted(self._changed.items()))

    def is_test_code(self, path: str) -> bool:
        """Whether a file is the test's own, or of any test."""
        return path in self._own or is_test_code(path)

    def _is_part_of_test(self, path: str, about: list[str]) -> bool:
        """Whether the test is made of it: its own file, or what no test file is itself; and a plain file."""
        modes = {about[0][1:], about[1]}
        shared = is_test_code(path) and not is_test_file(path)
        return (path in self._own or shared) and modes <= {"100644", "100755", "000000"}

    def read_old_files(self) -> dict[str, str | None]:
        """What was changed of what the test is made of, as it was; None: it was not there."""
        there = {path: about[2] for path, about in self._changed.items() if about[2].strip("0")}
        read = self._read_blobs(there)
        return {path: read.get(path) for path in self._changed}

    def read_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Files of the commit; those that are no text are left out."""
        found = self._read_blobs({path: f"{self.commit}:{path}" for path in paths if "\n" not in path})
        return {path: text for path, text in found.items() if _is_text(text)}

    def _read_blobs(self, names: dict[str, str]) -> dict[str, str]:
        asked = "".join(f"{name}\n" for name in names.values()).encode("utf-8", "surrogateescape")
        result = git.run(self._local, self._repo, "cat-file", "--batch", stdin=asked)
        if result.code:
            raise MngrError(f"git cat-file failed in {self._repo}: {result.error_line}")
        out, found = result.out, {}
        for path in names:
            head, _, out = out.partition(b"\n")
            words = head.split()
            if len(words) == 3 and words[1] == b"blob":
                size = int(words[2])
                found[path], out = out[:size].decode("utf-8", "surrogateescape"), out[size + 1 :]
        return found


def _is_text(text: str) -> bool:
    return not any("\udc80" <= char <= "\udcff" for char in text)
