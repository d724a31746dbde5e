"""Tests and their results, as every test runner describes them."""

from __future__ import annotations

import os

from mngr.base.model import Struct
from mngr.tmr.finding import Finding

TEST_TIMEOUT = 600.0  # seconds for one run of a test, by default


class TestFunction(Struct):
    """A test function with all its parameters: the subject of one task."""

    __test__ = False

    id: str  # without [parameters]
    ids: list[str]  # every node id
    path: str
    line: int | None = None
    name: str
    doc: str = ""
    markers: list[str] = []


class Frame(Struct):
    """A location in the code that was running."""

    path: str  # relative to the work dir, if it is the project's
    line: int
    function: str
    project: bool


class Failure(Struct):
    """Why a test, or its collection, failed."""

    id: str
    when: str  # collect | setup | call | teardown | interrupted | internal
    exception: str
    cause: str = ""  # the exception that it was raised from, if any
    message: str
    frames: list[Frame] = []  # outermost first
    text: str = ""  # the runner's explanation
    sections: dict[str, str] = {}  # captured output


class ProgramLocation(Struct):
    """Where a program of the project is."""

    path: str = ""  # of the script; empty if it is not on PATH
    module: str = ""  # that the script runs, if it is an installed entry point
    code: str = ""  # the file of that module


class ResolvedCode(Struct):
    """The files of the project's packages and programs, as the tests find them."""

    packages: dict[str, str] = {}
    scripts: dict[str, ProgramLocation] = {}
    executable: str = ""  # the program that runs the tests


NOTHING_RESOLVED = ResolvedCode()


class CollectedTests(Struct):
    """All tests in the runner's order, and the errors of files that could not be collected."""

    tests: list[TestFunction]
    errors: list[str]  # as text for people
    failures: list[Failure] = []  # the same errors, as data
    resolved: ResolvedCode = NOTHING_RESOLVED  # files of the project's packages and programs: see describe_foreign_code
    checkout_modules: list[str] = []  # modules that were imported from the user's checkout
    environment: dict[str, str] = {}  # versions, and a hash of the installed packages
    command: list[str] = []
    seconds: float = 0.0
    output: str = ""  # the end of the runner's own output


class RunOptions(Struct):
    """The changes that mngr makes for one run of a test, and the extra facts that the run reports."""

    seed: int | None = None
    files: dict[str, str | None] | None = None  # texts that replace files of the commit; None removes the file
    resolve: bool = False  # report the files of packages and programs
    program: str | None = None  # a program to resolve in addition to the installed ones
    trace: bool = False  # report the lines that are run
    loaded: bool = False  # report the files that are imported


class TestRun(Struct):
    """One run of one test with all its parameters."""

    __test__ = False

    test: str
    seen: str = "alone"  # alone: in its own process | suite: in a process with other tests
    outcome: str  # pass | fail | error | timeout | crash | skip
    why: str = ""  # one line for people, unless it passed
    seconds: float
    cpu: float = 0.0
    exit_code: int
    ids: dict[str, str] = {}  # each node id and its outcome
    missing: list[str] = []  # node ids that were collected and did not run
    failures: list[Failure] = []
    reruns: int = 0  # attempts that a plugin repeated because they failed
    command: str  # the command as a person would type it
    imported_from: dict[str, str] = {}  # the file of each of the project's packages
    wrong_code: list[str] = []  # imported project code from outside the clean room
    resolved: ResolvedCode = NOTHING_RESOLVED  # if requested
    output: str = ""  # the end of the runner's output
    transcripts: dict[str, str] = {}  # from mngr.e2e, by node id
    artifacts: list[str] = []  # directories of mngr.e2e in the work dir
    left: int = 0  # number of processes that it left running
    environment: dict[str, str] = {}  # versions, and for the first run a hash of the installed packages
    isolation: str = ""  # the isolation of the clean room, or `none: REASON`
    findings: list[Finding] = []  # what it did that is not allowed in a clean room
    lines: dict[str, list[int]] = {}  # the lines that ran, by file, if requested
    programs: int = 0  # that it started, if the lines were requested
    loaded: list[str] | None = None  # the files that it imported, if requested and known


class SuiteRequest(Struct):
    """Tests to run together in one process."""

    targets: list[str] = []  # tests, files or directories, as on the command line; empty: the runner's own default
    tests: list[TestFunction] | None = None  # run only these tests of the targets; None: run all
    shuffle: int | None = None  # the seed of a random order; None: the runner's own order
    timeout: float | None = None  # seconds for all tests together
    stall: float | None = None  # seconds for one test
    trace: bool = False  # report the lines that each test runs
    seed: int | None = None  # of hashes and of plugins that shuffle


class SuiteLines(Struct):
    """Which lines tests run, in their process and in every program that they start."""

    tests: dict[str, dict[str, list[int]]] = {}  # by test and file
    outside: dict[str, list[int]] = {}  # outside of all tests, such as during imports
    modules: dict[str, str] = {}  # the file of each module of the project

    def merge(self, other: SuiteLines) -> SuiteLines:
        """Return the lines of both."""
        tests = {
            test: _merge_lines(self.tests.get(test, {}), other.tests.get(test, {}))
            for test in {**self.tests, **other.tests}
        }
        return SuiteLines(
            tests=tests, outside=_merge_lines(self.outside, other.outside), modules=self.modules | other.modules
        )


def _merge_lines(first: dict[str, list[int]], second: dict[str, list[int]]) -> dict[str, list[int]]:
    return {path: sorted({*first.get(path, ()), *second.get(path, ())}) for path in {**first, **second}}


class SuiteRun(Struct):
    """One process that ran several tests."""

    whole: TestRun  # the process and all its tests, as if they were one test
    started: list[str]  # node ids, in the order in which they began
    runs: dict[str, TestRun] = {}  # the finished tests of the request, by test id
    lines: SuiteLines = SuiteLines()  # if requested
    culprit: str = ""  # the test that was running when the process ended too early


def first_line(message: str) -> str:
    """Return a message's first line. A heading or a command is joined with the line after it."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    if len(lines) > 1 and (lines[0].endswith(":") or lines[0].startswith("$ ")):
        return f"{lines[0].rstrip(':')}: {lines[1]}"
    return lines[0] if lines else ""


def is_own_source(path: str) -> bool:
    """True when a path, relative to the work dir, is the clean room's own source and no installed copy."""
    return not os.path.isabs(path) and {"site-packages", "dist-packages"}.isdisjoint(path.split(os.sep))
