"""The audit of many tests in the user's own checkout: which of them, several at once, and none twice that has not changed."""

from __future__ import annotations

import ast
import math
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from mngr.base import shell
from mngr.base.errors import MngrError, NotFound, UsageError
from mngr.base.fanout import map_parallel
from mngr.base.model import Struct
from mngr.host import git
from mngr.host.protocol import Host
from mngr.setup.init import detect_settings
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomBroken, CommandOutcome, count_cores, read_program
from mngr.tmr.cleanroom.test_run import Failure, TestFunction, first_line
from mngr.tmr.prepare.collect import collect_tests
from mngr.tmr.prepare.history import Fingerprinter
from mngr.tmr.result_cache import ResultCache
from mngr.tmr.verify.audit import NO_TIME_REASON, AuditResult, audit_test

_CHDIR_SCRIPT = 'cd "$1" && shift && exec "$@"'
_RULES_VERSION = "4"  # goes up when the same test may now be judged otherwise


class AuditOptions(Struct):
    """What is asked for."""

    pytest: list[str]
    paths: list[str] = []
    args: list[str] = []
    program: str | None = None
    modes: list[str]
    timeout: float
    jobs: int | None = None
    changed_since: str | None = None
    sample: int | None = None
    seed: str = "0"
    time_limit: float | None = None  # seconds after which nothing is run


class AuditReport(Struct):
    """What came of it."""

    program: str
    audited: list[AuditResult]
    cached: int
    test_count: int  # tests that there are

    def count(self, *outcomes: str) -> int:
        """How many ended so."""
        return sum(one.outcome in outcomes for one in self.audited)


class Checkout(CleanRoom):
    """A work tree as it is, in the place of a room: nothing is made clean, for it is the user's."""

    def __init__(self, root: str, place: str) -> None:
        self._warden, self._probe = read_program("clean_room_program.py"), read_program("pytest_probe.py")
        self.name = self.work_dir = self.repo = self.inner_work_dir = os.path.realpath(root)
        self._env = {**os.environ, "MNGR_OUTPUT_DIR": place, "PYTHONDONTWRITEBYTECODE": "1"}
        self.commit = self.tree = ""
        self._sandbox_job: dict[str, Any] = {}
        self.env: dict[str, str] = {}
        self.isolation = "none: it is the user's own"

    def run(self, argv: list[str], *, clean: bool = True, **more: Any) -> CommandOutcome:
        """As in a room, but in what the last command left."""
        return super().run(argv, clean=False, **more)

    def read(self, path: str) -> bytes:
        """A file in the work tree."""
        try:
            with open(os.path.join(self.work_dir, path), "rb") as file:
                return file.read()
        except OSError as error:
            raise MngrError(f"{path!r}: {error.strerror}") from None

    def _run_program(
        self, job: dict[str, Any], timeout: float | None = None
    ) -> tuple[dict[str, float], dict[str, str]]:
        argv = ["python3", "-I", "-S", "-c", self._warden, repr(job)]
        done = shell.run(["sh", "-c", _CHDIR_SCRIPT, "sh", self.work_dir, *argv], shown=["warden"], env=self._env)
        return self._parse_answer(done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace"))


def audit_checkout(
    local: Host, root: str, wish: AuditOptions, tutorial: str | None, say: Callable[[AuditResult, bool], None]
) -> AuditReport:
    """Audit the tests that are wished for; `say` hears of each, and whether it was known. Raises MngrError."""
    end = None if wish.time_limit is None else time.monotonic() + wish.time_limit
    usages: dict[tuple[str, ...], str] = {}
    guard = threading.Lock()
    cached = 0

    def left() -> float:
        return math.inf if end is None else end - time.monotonic()

    program = wish.program or _get_program(local, root)
    with tempfile.TemporaryDirectory(prefix="mngr-audit-") as place:
        checkout = Checkout(root, place)
        found = collect_tests(checkout, wish.pytest, wish.paths, wish.args, program=program)
        if found.errors and not found.failures:
            hint = "name tests as for pytest: mngr e2e audit tests/e2e"
            raise NotFound(found.errors[0].splitlines()[-1], hint)
        broken = [_make_uncollected_result(failure) for failure in found.failures]
        tests = select_tests(local, root, found.tests, wish)
        cache = AuditCache(local, root, program, tutorial, wish)

        def one(test: TestFunction) -> AuditResult:
            nonlocal cached
            known = cache.find(test)
            if known is None and left() <= 0:
                known = AuditResult(test=test.id, outcome="left", why=NO_TIME_REASON)
            made = known or _audit_one(checkout, test, program, wish, usages, left)
            with guard:
                cached += known is not None and known.outcome != "left"
                if known is None:
                    cache.put(test, made)
                say(made, known is not None)
            return made

        made = map_parallel(one, tests, wish.jobs or count_cores())
    for result in made:
        if isinstance(result, Exception):
            raise result
    return AuditReport(
        program=program, audited=broken + [one for one in made if isinstance(one, AuditResult)], cached=cached, test_count=len(found.tests)
    )  # fmt: skip


def _audit_one(
    checkout: Checkout,
    test: TestFunction,
    program: str,
    wish: AuditOptions,
    usages: dict[tuple[str, ...], str],
    left: Callable[[], float],
) -> AuditResult:
    try:
        return audit_test(
            checkout, wish.pytest, test, program=program, args=wish.args, modes=wish.modes, timeout=wish.timeout, usages=usages, left=left
        )  # fmt: skip
    except CleanRoomBroken as error:
        return AuditResult(test=test.id, outcome="failing", why=error.message)


def _make_uncollected_result(failure: Failure) -> AuditResult:
    return AuditResult(test=failure.id, outcome="failing", why=f"{failure.exception}: {first_line(failure.message)}")


def _get_program(local: Host, root: str) -> str:
    """The program that the project installs, else the only one in its bin."""
    for finding in detect_settings(local, root):
        if finding.key == "project.program":
            return str(finding.value)
    place = os.path.join(root, "bin")
    names = sorted(os.listdir(place)) if os.path.isdir(place) else []
    if len(names) == 1:
        return names[0]
    hint = "--program NAME, or for good: mngr config set project.program NAME"
    raise UsageError("which program the tests are about is not known", hint)


# Which tests.


def select_tests(local: Host, root: str, tests: list[TestFunction], wish: AuditOptions) -> list[TestFunction]:
    """All; or those that have changed; or some, drawn by the seed; or those that have changed and some of the others."""
    if wish.changed_since is None and wish.sample is None:
        return tests
    changed: list[TestFunction] = []
    if wish.changed_since is not None:
        if git.find_commit(local, root, wish.changed_since) is None:
            raise NotFound(f"there is no commit {wish.changed_since!r}", "see: git log --oneline --all")
        sources = {path: _read_versions(local, root, wish.changed_since, path) for path in {t.path for t in tests}}
        changed = [test for test in tests if has_changed(*sources[test.path], test.name)]
    others = [test for test in tests if test not in changed]
    some = random.Random(wish.seed).sample(others, min(wish.sample or 0, len(others)))
    return changed + some


def _read_versions(local: Host, root: str, ref: str, path: str) -> tuple[bytes | None, bytes]:
    """A file as it was at a commit, and as it is."""
    old = git.run(local, root, "show", f"{ref}:./{path}")
    with open(os.path.join(root, path), "rb") as file:
        return (None if old.code else old.out), file.read()


def has_changed(old: bytes | None, new: bytes, test: str) -> bool:
    """Whether a test says something else than before, or what it shares with others of its file does."""
    if old is None or old == new:
        return old is None
    try:
        return _list_parts(old, test) != _list_parts(new, test)
    except SyntaxError:
        return True


def _list_parts(source: bytes, name: str) -> list[str]:
    """A test and all in its file that is neither another test nor an import, as trees."""
    return [
        ast.dump(node)
        for node in ast.parse(source).body
        if not isinstance(node, (ast.Import, ast.ImportFrom))
        and not (isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test") and node.name != name)
    ]  # fmt: skip


# What is known.


class AuditCache:
    """The last word on each test, as long as neither it nor its program has changed."""

    def __init__(self, local: Host, root: str, program: str, tutorial: str | None, wish: AuditOptions) -> None:
        self._results = ResultCache(root, "audit")
        self._modes = set(wish.modes)
        self._key_parts = [_RULES_VERSION, program, _fingerprint_program(program), *wish.pytest, *wish.args]
        try:
            self._prints: Fingerprinter | None = Fingerprinter(local, root, None, tutorial)
        except MngrError:  # no repository: nothing tells whether something has changed
            self._prints = None

    def find(self, test: TestFunction) -> AuditResult | None:
        """What is known of a test, if that is all that is asked for."""
        known = self._results.find(self._key(test))
        if self._prints is None or not isinstance(known, dict) or not self._modes <= set(known["modes"]):
            return None
        seen = AuditResult.from_dict(known)
        holes = [hole for hole in seen.holes if hole.mode in self._modes]
        return seen.replace(holes=holes, outcome=_derive_outcome(seen.outcome, [hole.rule for hole in holes]))

    def put(self, test: TestFunction, audited: AuditResult) -> None:
        """Remember it, if it was seen to the end."""
        if self._prints is not None and audited.outcome not in ("failing", "unclear", "left"):
            self._results.put(self._key(test), audited.to_dict())

    def _key(self, test: TestFunction) -> list[object]:
        return [test.id, *self._key_parts, self._prints.fingerprint_test(test.path) if self._prints else ""]


def _derive_outcome(known: str, rules: list[str]) -> str:
    if known not in ("vacuous", "unguarded"):
        return known
    return "vacuous" if "vacuous" in rules else "unguarded" if rules else "guarded"


def _fingerprint_program(program: str) -> str:
    """What tells one installation of a program from another, where it is not the project's."""
    path = shutil.which(program.split(maxsplit=1)[0])
    if path is None:
        return ""
    about = os.stat(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"
