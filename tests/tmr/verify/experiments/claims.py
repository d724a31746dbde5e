"""Claims in small projects, verified in real clean rooms: what the tests of experiments share."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from mngr.testkit.contract.mngr_program import run_git
from mngr.tmr.runners.pytest.runner import PytestRunner
from mngr.tmr.runners.test_run import TestFunction
from mngr.tmr.verify.experiments.experiment import Experiment
from mngr.tmr.verify.receipt import Receipt
from mngr.tmr.verify.verify import verify
from mngr.tmr.verify.verify_request import VerifyOptions, VerifyRequest
from tests.tmr.world import PYTEST, World


def commit_files(world: World, files: Mapping[str, str | None]) -> str:
    """Commit files on the base of the project and return the commit. None removes a file."""
    run_git(world.repo, "checkout", "-q", "-B", "edit", world.base)
    for name, text in files.items():
        path = world.repo / name
        if text is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    run_git(world.repo, "add", "-A", ".")
    run_git(world.repo, "commit", "-qm", "edit")
    commit = run_git(world.repo, "rev-parse", "HEAD")
    run_git(world.repo, "update-ref", f"refs/heads/{commit[:8]}", commit)
    run_git(world.repo, "checkout", "-q", "main")
    return commit


def verify_files(
    world: World,
    files: Mapping[str, str | None],
    test: str = "test_total",
    path: str = "tests/test_shop.py",
    level: str = "quick",
) -> Receipt:
    """Commit files and verify a test with one run and all experiments."""
    commit = commit_files(world, files)
    with world.rooms.acquire(commit) as room:
        collected = PytestRunner(VerifyOptions(pytest=PYTEST)).collect(room)
    subject = next(one for one in collected.tests if one.name == test and one.path == path)
    return verify_test(world, commit, subject, level)


def verify_test(world: World, commit: str, subject: TestFunction, level: str = "quick") -> Receipt:
    """Verify a test of a commit."""
    request = VerifyRequest(test=subject, commit=commit, base=world.base, is_one_of_many=True)
    return verify(world.rooms, request, VerifyOptions(pytest=PYTEST, runs=1, level=level))


def get_row(receipt: Receipt, name: str) -> Experiment:
    """Return the row of an experiment."""
    return next(row for row in receipt.experiments if row.name == name)


def list_rules(receipt: Receipt) -> dict[str, tuple[str, str, int]]:
    """Return the level and the place of each finding of the experiments, by its rule."""
    return {finding.rule: (finding.level, finding.path, finding.line) for finding in receipt.findings}
