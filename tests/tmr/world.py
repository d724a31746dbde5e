"""A small project in its own home, with clean rooms that really run its tests."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mngr import Fleet
from mngr.setup.trust import inspect_trust, trust_project
from mngr.testkit.contract.mngr_program import clean_up, commit_file, new_env, new_repo
from mngr.tmr.cleanroom.clean_room import CleanRoom
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.runners.pytest.runner import PytestOptions, PytestRunner
from mngr.tmr.runners.test_run import CollectedTests, TestFunction, TestRun

RUN = "20260102-030405-abcd"
PYTEST = ["python", "-m", "pytest"]
BARE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other pytest plugins of the environment only cost time


class World:
    """The project, its clean rooms, and one clean room that a test module shares."""

    def __init__(self, root: Path, repo: Path, files: dict[str, str], sandbox: CleanRoomSandbox | None) -> None:
        self.root, self.repo = root, repo
        self.base = self.write(files)
        self.fleet = Fleet(str(root / "home"), cwd=str(repo))
        trust_project(self.fleet.context, inspect_trust(self.fleet.context))
        self.rooms = CleanRoomPool(self.fleet, RUN, str(repo), CleanRoomOptions(env=BARE, sandbox=sandbox))
        self.collected: CollectedTests
        self.room: CleanRoom

    def write(self, files: dict[str, str]) -> str:
        """Write files, commit them and return the commit."""
        for name, text in files.items():
            path = self.repo / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return commit_file(self.repo, "notes.txt", "\n".join(sorted(files)))

    def test(self, name: str) -> TestFunction:
        """Return a collected test by its name."""
        return next(test for test in self.collected.tests if test.name == name)

    def run(self, name: str, timeout: float = 30.0) -> TestRun:
        """Run a test once in the shared clean room."""
        return PytestRunner(PytestOptions(pytest=PYTEST, timeout=timeout)).run_test(self.room, self.test(name))

    def list_trash(self) -> list[str]:
        """Return the names of the agents in the trash."""
        return [trashed.name for trashed in self.fleet.list_trash()]


@contextmanager
def new_world(root: Path, files: dict[str, str], sandbox: CleanRoomSandbox | None = None) -> Iterator[World]:
    """Create a world with a collected clean room, and remove everything afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        repo = new_repo(root, new_env(root), patch)
        world = World(root, repo, {".gitignore": "__pycache__/\n.venv/\n*.log\n", **files}, sandbox)
        try:
            with world.rooms.acquire(world.base) as world.room:
                world.collected = PytestRunner(PytestOptions(pytest=PYTEST)).collect(world.room)
                yield world
        finally:
            clean_up(root)
