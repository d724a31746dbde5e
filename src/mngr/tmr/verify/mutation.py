"""Differential mutation: puts small faults into the code that a test runs.

The new test must catch what the old one caught.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mngr.base.errors import MngrError
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CleanRoomPool
from mngr.tmr.finding import Finding
from mngr.tmr.prepare.root_causes import is_test_code, is_test_file
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.runners.choose import choose_runner
from mngr.tmr.runners.pytest.in_clean_room.replaced_files import pack_text
from mngr.tmr.runners.test_run import RunOptions, TestRun
from mngr.tmr.verify.legacy.mutants import Mutant, candidates, choose
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest

_RULES_VERSION = 1  # increased when the same run may be judged differently
# Characters that the old tests, and a file with a fault, may take on a command line.
_OLD, _FAULTY = 40_000, 25_000
_SPARE, _TIMES = 5.0, 4.0  # a test with a fault may take _SPARE seconds and _TIMES its normal time
_FAILED_OUTCOMES = ("fail", "error", "timeout", "crash")


class MutantResult(Struct):
    """One fault, and the result of each test version: caught | missed | flaky, or empty if it was not run."""

    path: str
    line: int
    kind: str
    before: str
    after: str
    old: str = ""
    new: str = ""


class MutationReport(Struct):
    """The comparison of two versions of a test on mutants."""

    v: int = 1
    test: str
    seed: int
    state: str  # compared | new: no old test | alone: the old test cannot run | same: unchanged | unmeasured
    reason: str = ""  # why the versions were not compared
    trials: list[MutantResult] = []
    runs: int = 0  # test runs that were needed
    cached: int = 0  # test runs that the cache saved
    seconds: float = 0.0
    left: int = 0  # faults that exceeded the budget

    @property
    def newly_caught(self) -> list[MutantResult]:
        """The faults that only the new test catches."""
        return [trial for trial in self.trials if (trial.old, trial.new) == ("missed", "caught")]

    @property
    def newly_missed(self) -> list[MutantResult]:
        """The faults that only the old test caught."""
        return [trial for trial in self.trials if (trial.old, trial.new) == ("caught", "missed")]

    def findings(self) -> list[Finding]:
        """Return a finding for each newly missed fault, and one for a test that catches none."""
        findings = [self._make_finding(trial) for trial in self.newly_missed]
        tried = [trial for trial in self.trials if trial.new]
        if len(tried) >= 3 and all(trial.new == "missed" for trial in tried):
            sentence = f"it detects none of the {len(tried)} faults that mngr put into the code that it runs"
            findings.append(
                Finding(rule="no-fault-caught", level="note", path=self.test.partition("::")[0], what=sentence)
            )
        return findings

    def _make_finding(self, trial: MutantResult) -> Finding:
        sentence = f"the old {self.test} detected this fault ({trial.kind}), and the new one does not"
        return Finding(
            rule="fault-newly-missed", level="refuse", path=trial.path, line=trial.line, what=sentence, old=trial.before, new=trial.after
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, and what a reader of the JSON wants to know first."""
        return {**super().to_dict(), "newly_caught": self.newly_caught, "newly_missed": self.newly_missed}


class VersionRun(Struct):
    """One run of a version of the test, with or without a fault."""

    outcome: str
    why: str
    seconds: float
    lines: dict[str, list[int]]


class _MutationBudgetExhausted(Exception):
    """The number of runs is used up."""


def compare_versions(
    clean_rooms: CleanRoomPool,
    request: VerifyRequest,
    options: VerifyOptions,
    *,
    cache: ResultCache | None = None,
    budget: int | None = None,
    get_room: Callable[[], CleanRoom] | None = None,
    passing_run: TestRun | None = None,
) -> MutationReport:
    """Compare the request's test at its commit with the same test at its base.

    It uses at most `budget` runs. Without a budget: two, two for each fault, and one for each newly missed fault.
    Both versions run on the code of the commit, in one clean room. A caller that already has one passes `get_room`.
    `passing_run` is a run of the new test that passed, with its lines. Cached runs are not repeated.

    Raise MngrError when the clean room fails.
    """
    blank = MutationReport(test=request.test.id, seed=options.seed, state="unmeasured")
    runner = _VersionRunner(clean_rooms, request, options, cache, budget, get_room, passing_run)
    if not runner.before:
        return blank.replace(
            state="same", reason="neither the test nor the code that it shares with other tests changed"
        )
    with contextlib.closing(runner):
        try:
            report = _run_comparison(blank, runner, options)
        except _MutationBudgetExhausted:
            report = blank.replace(reason=f"{budget} runs are not enough for a comparison")
        return report.replace(runs=runner.runs, cached=runner.cached, seconds=round(runner.seconds, 3))


def _run_comparison(blank: MutationReport, runner: _VersionRunner, options: VerifyOptions) -> MutationReport:
    """Run both versions on the chosen mutants and return the report."""
    files, timeout = runner.files, options.timeout
    new_run = runner.run_unchanged("new", timeout)
    if new_run.outcome != "pass":
        return blank.replace(reason=f"the new test does not pass: {new_run.why or new_run.outcome}")
    state, reason, old_lines = _run_old_test(runner, timeout)
    lines = [new_run.lines, old_lines] if state == "compared" else [new_run.lines]
    sources = files.read_files(path for executed in lines for path in executed if not files.is_test_code(path))
    sources = {path: text for path, text in sources.items() if len(pack_text(text)) < _FAULTY}
    covered = {path: {line for executed in lines for line in executed.get(path, [])} for path in sources}
    mutants = choose(sources, covered, options.mutant_count, options.seed)
    reached_sites = [_list_reached_sites(sources, executed) for executed in lines]
    judged = _MutantComparison(runner, sources, reached_sites, state == "compared").judge_all(mutants)
    trials = [trial.replace(old="missed") if state == "new" else trial for trial in judged if trial.new]
    return blank.replace(state=state, reason=reason, trials=trials, left=len(judged) - len(trials))


def _run_old_test(runner: _VersionRunner, timeout: float) -> tuple[str, str, dict[str, list[int]]]:
    """Return the state, the reason if nothing is compared, and the lines that the old test runs."""
    test = runner.test
    text = runner.before.get(test.path, "")
    if text is None or (text and f"def {test.name}(" not in text):
        return "new", "the base does not have this test", {}
    if sum(len(pack_text(old_text)) for old_text in runner.before.values() if old_text is not None) > _OLD:
        return "alone", "the old test files are too large to be run in place of the new ones", {}
    old_run = runner.run_unchanged("old", timeout)
    if old_run.outcome != "pass":
        return "alone", f"the old test does not pass on this code: {old_run.why or old_run.outcome}", {}
    return "compared", "", old_run.lines


def _list_reached_sites(sources: dict[str, str], lines: dict[str, list[int]]) -> set[tuple[str, int, int]]:
    """Return the places of possible faults that these lines reach."""
    return {
        (mutant.path, mutant.start, mutant.end)
        for path, text in sources.items()
        for mutant in candidates(path, text, lines.get(path, []))
    }


class _MutantComparison:
    """Finds which test version catches which fault. The most telling runs come first."""

    def __init__(
        self,
        runner: _VersionRunner,
        sources: dict[str, str],
        reached_sites: list[set[tuple[str, int, int]]],
        has_old_test: bool,
    ) -> None:
        self._runner, self._sources, self._both = runner, sources, has_old_test
        self._reached_sites = dict(zip(("new", "old"), reached_sites, strict=False))

    def judge_all(self, mutants: list[Mutant]) -> list[MutantResult]:
        trials = [
            MutantResult(path=mutant.path, line=mutant.line, kind=mutant.kind, before=mutant.before, after=mutant.after)
            for mutant in mutants
        ]
        with contextlib.suppress(_MutationBudgetExhausted):
            for index, mutant in enumerate(mutants):
                new = self._judge_version("new", mutant)
                trials[index] = trials[index].replace(new=new)
                if new == "missed" and self._both:
                    trials[index] = self._confirm_missed(mutant, trials[index])
            for index, mutant in enumerate(mutants):
                if trials[index].new == "caught" and self._both:
                    trials[index] = trials[index].replace(old=self._judge_version("old", mutant))
        return trials

    def _judge_version(self, side: str, mutant: Mutant) -> str:
        return self._run_mutant(side, mutant) if self._is_reached(side, mutant) else "missed"

    def _is_reached(self, side: str, mutant: Mutant) -> bool:
        return (mutant.path, mutant.start, mutant.end) in self._reached_sites[side]

    def _run_mutant(self, side: str, mutant: Mutant, again: int = 0) -> str:
        return self._runner.run_mutant(side, mutant, mutant.apply(self._sources[mutant.path]), again)

    def _confirm_missed(self, mutant: Mutant, trial: MutantResult) -> MutantResult:
        """Judge a fault that the new test misses. If the old test caught it, run that once more to be sure."""
        old = self._judge_version("old", mutant)
        if old == "missed":
            return trial.replace(old=old)
        if not self._is_reached("new", mutant) and self._run_mutant("new", mutant) == "caught":
            return trial.replace(old=old, new="caught")  # the trace did not see the new test reach the fault
        is_caught_again = self._run_mutant("old", mutant, again=1) == "caught"
        return trial.replace(old=old if is_caught_again else "flaky")


class _VersionRunner:
    """Runs both test versions in one clean room, which is created for the first run that is not cached."""

    def __init__(
        self,
        clean_rooms: CleanRoomPool,
        request: VerifyRequest,
        options: VerifyOptions,
        cache: ResultCache | None,
        budget: int | None,
        borrow_room: Callable[[], CleanRoom] | None,
        known_run: TestRun | None,
    ) -> None:
        self._rooms, self._request, self.test = clean_rooms, request, request.test
        self._options = options.replace(args=[*options.args, "-x"])
        self._cache, self._budget, self._borrow_room, self._known_run = cache, budget, borrow_room, known_run
        repo = request.source or clean_rooms.repo
        self.files = _CommitFiles(clean_rooms.fleet.context.local_host, repo, request)
        self.before = self.files.read_old_files()
        self._stack = contextlib.ExitStack()
        self._room: CleanRoom | None = None
        self._normal_seconds: dict[str, float] = {}
        self.runs, self.cached, self.seconds = 0, 0, 0.0

    def run_unchanged(self, side: str, timeout: float) -> VersionRun:
        """Run a version without a fault and return its outcome and its lines."""
        if side == "new" and self._known_run is not None:
            version_run = _summarize_run(self._known_run)
        else:
            version_run = self._run_cached(side, [], lambda: self._run_test(side, {}, timeout, trace=True))
        self._normal_seconds[side] = version_run.seconds
        return version_run

    def run_mutant(self, side: str, mutant: Mutant, text: str, again: int) -> str:
        """Run a version with a fault and return caught or missed. A test that no longer ends has caught it."""
        timeout = _SPARE + _TIMES * self._normal_seconds[side]
        edit = [mutant.path, mutant.start, mutant.end, mutant.new]
        version_run = self._run_cached(side, [edit, again], lambda: self._run_test(side, {mutant.path: text}, timeout))
        return "caught" if version_run.outcome in _FAILED_OUTCOMES else "missed"

    def _run_cached(self, side: str, key_parts: Sequence[object], run: Callable[[], TestRun]) -> VersionRun:
        """Return the cached run of a version, or run it now and cache it."""
        command = choose_runner(self._options).command(self.test.id)
        old_fingerprint = self.files.fingerprint_before if side == "old" else ""
        key = [
            "mutation",
            _RULES_VERSION,
            self.files.tree,
            old_fingerprint,
            self._rooms.cache_key,
            command,
            side,
            *key_parts,
        ]
        cached = None if self._cache is None else self._cache.find_struct(key, VersionRun)
        if cached is not None:
            self.cached += 1
            return cached
        version_run = _summarize_run(run())
        if self._cache is not None:
            self._cache.put(key, version_run)
        return version_run

    def _run_test(self, side: str, files: dict[str, str | None], timeout: float, trace: bool = False) -> TestRun:
        """Run a version once. If the clean room breaks, try once more in a new one."""
        if self._budget is not None and self.runs >= self._budget:
            raise _MutationBudgetExhausted
        self.runs += 1
        if side == "old":
            files = {**self.before, **files}
        options = self._options.replace(timeout=timeout)
        run_options = RunOptions(seed=options.seed, files=files, trace=trace)
        for is_last in (False, True):
            try:
                run = choose_runner(options).run_test(self._get_room(), self.test, run_options)
                self.seconds += run.seconds
                return run
            except CleanRoomBroken:
                if is_last or self._borrow_room is not None:
                    raise
                self.close()
        raise AssertionError

    def _get_room(self) -> CleanRoom:
        if self._borrow_room is not None:
            return self._borrow_room()
        if self._room is None:
            self._room = self._stack.enter_context(self._rooms.acquire(self.files.commit, self._request.source))
        return self._room

    def close(self) -> None:
        """Discard the clean room, unless it is borrowed."""
        self._stack.close()
        self._room = None


def _summarize_run(run: TestRun) -> VersionRun:
    return VersionRun(outcome=run.outcome, why=run.why, seconds=run.seconds, lines=run.lines)


class _CommitFiles:
    """The files of two commits, read from git."""

    def __init__(self, local: Host, repo: str, request: VerifyRequest) -> None:
        self._local, self._repo, self.commit, self._test_path = local, repo, request.commit, request.test.path
        self.tree = git.run_checked(local, repo, "rev-parse", f"{self.commit}^{{tree}}")
        diff = ("diff", "--raw", "--no-renames", "--no-abbrev", "-z", request.base, self.commit)
        rows = git.run_checked(local, repo, *diff).split("\0")
        changed = {path: raw_fields.split() for raw_fields, path in zip(rows[::2], rows[1::2], strict=False)}
        self._changed = {
            path: raw_fields for path, raw_fields in changed.items() if self._is_part_of_test(path, raw_fields)
        }
        self.fingerprint_before = " ".join(
            f"{path} {raw_fields[2]}" for path, raw_fields in sorted(self._changed.items())
        )

    def is_test_code(self, path: str) -> bool:
        """True when the file belongs to this test or to any other."""
        return path == self._test_path or is_test_code(path)

    def _is_part_of_test(self, path: str, raw_fields: list[str]) -> bool:
        """True when a plain file is the test's own file or shared test code."""
        modes = {raw_fields[0][1:], raw_fields[1]}
        is_shared = is_test_code(path) and not is_test_file(path)
        return (path == self._test_path or is_shared) and modes <= {"100644", "100755", "000000"}

    def read_old_files(self) -> dict[str, str | None]:
        """Return the old text of each changed file that is part of the test, None if it did not exist."""
        blob_ids = {path: raw_fields[2] for path, raw_fields in self._changed.items() if raw_fields[2].strip("0")}
        texts = self._read_blobs(blob_ids)
        return {path: texts.get(path) for path in self._changed}

    def read_files(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the texts of files of the commit, without files that are no text."""
        texts = self._read_blobs({path: f"{self.commit}:{path}" for path in paths if "\n" not in path})
        return {path: text for path, text in texts.items() if _is_text(text)}

    def _read_blobs(self, names: dict[str, str]) -> dict[str, str]:
        request = "".join(f"{name}\n" for name in names.values()).encode("utf-8", "surrogateescape")
        result = git.run(self._local, self._repo, "cat-file", "--batch", stdin=request)
        if result.code:
            raise MngrError(f"git cat-file failed in {self._repo}: {result.error_line}")
        out, texts = result.out, {}
        for path in names:
            header, _, out = out.partition(b"\n")
            words = header.split()
            if len(words) == 3 and words[1] == b"blob":
                size = int(words[2])
                texts[path], out = out[:size].decode("utf-8", "surrogateescape"), out[size + 1 :]
        return texts


def _is_text(text: str) -> bool:
    return not any("\udc80" <= char <= "\udcff" for char in text)
