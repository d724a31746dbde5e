"""Audits many tests in the user's own checkout, in parallel. Unchanged tests are not audited again."""

from __future__ import annotations

import ast
import os
import random
import shutil
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.json_structs import encode
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.setup.init.detect_settings import detect_settings
from mngr.tmr.cleanroom import program_sources
from mngr.tmr.cleanroom.clean_room import CleanRoom, CleanRoomBroken, CommandOutcome
from mngr.tmr.cleanroom.clean_rooms import count_cores
from mngr.tmr.cleanroom.sandbox import CleanRoomJob
from mngr.tmr.prepare.history.audit_outcomes import AuditedTestFile
from mngr.tmr.prepare.history.earlier_results import Fingerprinter
from mngr.tmr.result_cache import ResultCache, get_cache_dir
from mngr.tmr.runners.choose_runner import choose_runner
from mngr.tmr.runners.pytest.runner import PytestOptions
from mngr.tmr.runners.test_run import Failure, TestFunction, first_line
from mngr.tmr.verify.audit.stub_audit import NO_TIME_REASON, AuditResult, AuditSession, audit_test, get_outcome_of_gaps

_CHDIR_SCRIPT = 'cd "$1" && shift && exec "$@"'
_RULES_VERSION = "4"  # increased when the same test may be judged differently


class AuditOptions(PytestOptions):
    """The options of an audit."""

    paths: list[str] = []
    program: str | None = None
    modes: list[str]
    jobs: int | None = None
    changed_since: str | None = None
    sample: int | None = None
    seed: str = "0"
    time_limit: float | None = None  # seconds after which no further test is run


class AuditReport(Struct):
    """The results of an audit."""

    program: str
    audited: list[AuditResult]
    cached: int
    test_count: int  # number of tests that exist

    def count(self, *outcomes: str) -> int:
        """Return how many tests have one of these outcomes."""
        return sum(result.outcome in outcomes for result in self.audited)


class Checkout(CleanRoom):
    """The user's work tree in place of a clean room. It is never cleaned, because it belongs to the user."""

    def __init__(self, root: str, output_dir: str) -> None:
        program_dir = os.path.join(output_dir, "clean-room")
        os.mkdir(program_dir)
        for name, text in program_sources.read_clean_room_programs().items():
            with open(os.path.join(program_dir, name), "w", encoding="utf-8") as file:
                file.write(text)
        self._program_args = ["-c", program_sources.PROGRAM_LOADER % program_dir]
        self.name = self.work_dir = self.repo = self.inner_work_dir = os.path.realpath(root)
        self._env = {**os.environ, "MNGR_OUTPUT_DIR": output_dir, "PYTHONDONTWRITEBYTECODE": "1"}
        self.commit = self.tree = ""
        self._limits = self._sandbox = None
        self._must_clean = False
        self.env: dict[str, str] = {}
        self.isolation = "none: the tests ran in the user's own checkout"

    def run(self, argv: list[str], *, clean: bool = True, **options: Any) -> CommandOutcome:
        """Run a command as in a clean room, but keep what the last command left."""
        return super().run(argv, clean=False, **options)

    def read(self, path: str) -> bytes:
        """Return the content of a file in the work tree."""
        try:
            with open(os.path.join(self.work_dir, path), "rb") as file:
                return file.read()
        except OSError as error:
            file_path = os.path.join(self.work_dir, path)
            raise MngrError(
                f"cannot read {path!r}: {error.strerror}", f"check the file: {shell.join(['ls', '-l', file_path])}"
            ) from None

    def _run_program(self, job: CleanRoomJob, timeout: float | None = None) -> tuple[dict[str, float], dict[str, str]]:
        """Run the clean room program in the work tree and return its parsed answer."""
        argv = ["python3", "-I", "-S", *self._program_args, repr(encode(job))]
        result = shell.run(
            ["sh", "-c", _CHDIR_SCRIPT, "sh", self.work_dir, *argv], display_argv=["clean-room"], env=self._env
        )
        return self._parse_answer(result.out.decode("utf-8", "replace"), result.err.decode("utf-8", "replace"))


def audit_checkout(
    local: Host, root: str, options: AuditOptions, tutorial: str | None, on_result: Callable[[AuditResult, bool], None]
) -> AuditReport:
    """Audit the selected tests. `on_result` gets each result, and True if it was cached. Raise MngrError."""
    session = AuditSession(options.time_limit)
    lock = threading.Lock()
    cached = 0

    program = options.program or _get_program(local, root)
    with tempfile.TemporaryDirectory(prefix="mngr-audit-") as output_dir:
        checkout = Checkout(root, output_dir)
        collected = choose_runner(options).collect(checkout, options.paths, program=program)
        if collected.errors and not collected.failures:
            hint = "name tests as for pytest: mngr e2e audit tests/e2e"
            raise NotFound(collected.errors[0].splitlines()[-1], hint)
        broken = [_make_uncollected_result(failure) for failure in collected.failures]
        tests = select_tests(local, root, collected.tests, options)
        cache = AuditCache(local, root, program, tutorial, options)

        def audit(test: TestFunction) -> AuditResult:
            nonlocal cached
            cached_result = cache.find(test)
            if cached_result is None and session.seconds_left() <= 0:
                cached_result = AuditResult(test=test.id, outcome="left", why=NO_TIME_REASON)
            result = cached_result or _audit_one(checkout, test, program, options, session)
            with lock:
                cached += cached_result is not None and cached_result.outcome != "left"
                if cached_result is None:
                    cache.put(test, result)
                on_result(result, cached_result is not None)
            return result

        results = map_parallel(audit, tests, options.jobs or count_cores())
    for result in results:
        if isinstance(result, Exception):
            raise result
    audited = broken + [result for result in results if isinstance(result, AuditResult)]
    AuditedTestFile(local.home, root).add(
        {result.test: result.outcome for result in audited if result.outcome != "left"}
    )
    return AuditReport(program=program, audited=audited, cached=cached, test_count=len(collected.tests))


def _audit_one(
    checkout: Checkout, test: TestFunction, program: str, options: AuditOptions, session: AuditSession
) -> AuditResult:
    """Audit a test. A broken environment counts as a failing test."""
    try:
        return audit_test(checkout, options, test, program=program, modes=options.modes, session=session)
    except CleanRoomBroken as error:
        return AuditResult(test=test.id, outcome="failing", why=error.message)


def _make_uncollected_result(failure: Failure) -> AuditResult:
    return AuditResult(test=failure.id, outcome="failing", why=f"{failure.exception}: {first_line(failure.message)}")


def _get_program(local: Host, root: str) -> str:
    """Return the program that the project installs, or the only one in its bin directory."""
    for finding in detect_settings(local, root):
        if finding.key == "project.program":
            return str(finding.value)
    bin_dir = os.path.join(root, "bin")
    names = sorted(os.listdir(bin_dir)) if os.path.isdir(bin_dir) else []
    if len(names) == 1:
        return names[0]
    hint = "name it: mngr e2e audit --program NAME; to save it: mngr config set project.program NAME"
    raise UsageError("mngr does not know which program the tests run", hint)


# Selecting tests


def select_tests(local: Host, root: str, tests: list[TestFunction], options: AuditOptions) -> list[TestFunction]:
    """Return all tests, or the changed ones, a random sample, or the changed ones and a sample of the others."""
    if options.changed_since is None and options.sample is None:
        return tests
    changed: list[TestFunction] = []
    if options.changed_since is not None:
        if git.find_commit(local, root, options.changed_since, git.SAFE_GIT) is None:
            raise NotFound(f"there is no commit {options.changed_since!r}", "list the commits: git log --oneline --all")
        sources = {
            path: _read_versions(local, root, options.changed_since, path) for path in {test.path for test in tests}
        }
        changed = [test for test in tests if has_changed(*sources[test.path], test.name)]
    others = [test for test in tests if test not in changed]
    sample = random.Random(options.seed).sample(others, min(options.sample or 0, len(others)))
    return changed + sample


def _read_versions(local: Host, root: str, ref: str, path: str) -> tuple[bytes | None, bytes]:
    """Return a file's content at a commit, or None, and its present content."""
    old = git.run(local, root, "show", f"{ref}:./{path}", git_command=git.GIT)
    with open(os.path.join(root, path), "rb") as file:
        return (None if old.code else old.out), file.read()


def has_changed(old: bytes | None, new: bytes, test: str) -> bool:
    """True when a test, or code that it shares with others of its file, has changed."""
    if old is None or old == new:
        return old is None
    try:
        return _list_parts(old, test) != _list_parts(new, test)
    except SyntaxError:
        return True


def _list_parts(source: bytes, name: str) -> list[str]:
    """Return the syntax trees of a test and of everything in its file except other tests and imports."""
    return [
        ast.dump(node)
        for node in ast.parse(source).body
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        and not (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and node.name.startswith("test")
            and node.name != name
        )
    ]


# Cached results


class AuditCache:
    """The last result of each test, valid as long as neither the test nor its program has changed."""

    def __init__(self, local: Host, root: str, program: str, tutorial: str | None, options: AuditOptions) -> None:
        self._results = ResultCache(get_cache_dir(local.home, root), "audit")
        self._modes = set(options.modes)
        self._key_parts = [_RULES_VERSION, program, _fingerprint_program(program), *options.pytest, *options.args]
        try:
            self._prints: Fingerprinter | None = Fingerprinter(local, root, None, tutorial)
        except MngrError:  # without a repository, changes cannot be detected
            self._prints = None

    def find(self, test: TestFunction) -> AuditResult | None:
        """Return the cached result of a test, if it covers all requested modes."""
        if self._prints is None:
            return None
        cached = self._results.find_struct(self._key(test), AuditResult)
        if cached is None or not self._modes <= set(cached.modes):
            return None
        holes = [hole for hole in cached.holes if hole.mode in self._modes]
        return cached.replace(holes=holes, outcome=_derive_outcome(cached.outcome, [hole.rule for hole in holes]))

    def put(self, test: TestFunction, result: AuditResult) -> None:
        """Save the result of a completed audit."""
        if self._prints is not None and result.outcome not in ("failing", "unclear", "left"):
            self._results.put(self._key(test), result)

    def _key(self, test: TestFunction) -> list[object]:
        return [test.id, *self._key_parts, self._prints.fingerprint_test(test.path) if self._prints else ""]


def _derive_outcome(outcome: str, rules: list[str]) -> str:
    """Return the outcome that remains when only the gaps of some modes count."""
    if outcome not in ("vacuous", "unguarded"):
        return outcome
    return get_outcome_of_gaps(rules)


def _fingerprint_program(program: str) -> str:
    """Return what identifies an installation of a program that is not part of the project."""
    path = shutil.which(program.split(maxsplit=1)[0])
    if path is None:
        return ""
    stats = os.stat(path)
    return f"{path} {stats.st_size} {stats.st_mtime_ns}"
