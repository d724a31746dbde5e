"""The protocol of a test runner: everything that mngr needs to know about a project's way to run tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.runners.test_run import CollectedTests, RunOptions, SuiteRequest, SuiteRun, TestFunction, TestRun

DEFAULT_RUN_OPTIONS = RunOptions()


class TestRunner(Protocol):
    """Collects and runs tests in a clean room. Each method raises MngrError when the clean room fails, not a test."""

    def command(self, test: str) -> list[str]:
        """Return the command with which a person runs a test, without mngr's own arguments."""
        ...

    def collect(self, room: CleanRoom, paths: Sequence[str] = (), *, program: str | None = None) -> CollectedTests:
        """Collect the tests. `program` is the project's main command, if it has one."""
        ...

    def run_test(
        self,
        room: CleanRoom,
        test: TestFunction,
        options: RunOptions = DEFAULT_RUN_OPTIONS,
        artifacts_dir: str | None = None,
    ) -> TestRun:
        """Run a test once in its own process, and save its artifacts if there is a directory for them."""
        ...

    def run_suite(
        self, room: CleanRoom, request: SuiteRequest, get_artifacts_dir: Callable[[str], str | None] | None = None
    ) -> SuiteRun:
        """Run several tests in one process, as the project itself does.

        `get_artifacts_dir` returns the directory for the artifacts of a test.
        """
        ...
