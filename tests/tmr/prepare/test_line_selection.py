"""Tests that recorded lines decide which tests a commit leaves unaffected."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr import Fleet
from mngr.testkit.contract.mngr_program import commit_file, new_env, new_repo, run_git
from mngr.tmr.prepare.line_selection import LineSelection
from mngr.tmr.runners.test_run import SuiteLines

SHOP = "def pear():\n    return 1\n\n\ndef plum():\n    return 2\n"
LINES = SuiteLines(
    tests={"tests/test_a.py::test_pear": {"shop.py": [2]}, "tests/test_a.py::test_plum": {"shop.py": [6]}},
    modules={"shop": "shop.py"},
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return new_repo(tmp_path, new_env(tmp_path), monkeypatch)


def list_unaffected(tmp_path: Path, repo: Path, commit: str) -> list[str]:
    """Return the tests that the checked-out commit leaves unaffected since `commit`."""
    local = Fleet(str(tmp_path / "home"), cwd=str(repo)).context.local_host
    base = commit_file(repo, "shop.py", SHOP)
    LineSelection(local, str(repo), str(repo), base).save(LINES)
    run_git(repo, "cherry-pick", commit)
    selection = LineSelection(local, str(repo), str(repo), run_git(repo, "rev-parse", "HEAD").strip())
    return [test.rpartition("_")[2] for test in LINES.tests if selection.is_unaffected(test, base)]


def make_change(repo: Path, path: str, text: str) -> str:
    """Return a commit that changes a file of a repository whose shop.py is as recorded."""
    commit_file(repo, "shop.py", SHOP)
    commit = commit_file(repo, path, text)
    run_git(repo, "reset", "-q", "--hard", "HEAD~2")
    return commit


def test_a_change_of_one_function_leaves_the_tests_of_the_other_unaffected(tmp_path: Path, repo: Path) -> None:
    commit = make_change(repo, "shop.py", SHOP.replace("return 1", "return 3"))
    assert list_unaffected(tmp_path, repo, commit) == ["plum"]


def test_a_change_of_a_file_that_is_not_python_affects_all_tests(tmp_path: Path, repo: Path) -> None:
    assert list_unaffected(tmp_path, repo, make_change(repo, "data.json", "{}\n")) == []


def test_without_recorded_lines_nothing_is_unaffected(tmp_path: Path, repo: Path) -> None:
    local = Fleet(str(tmp_path / "home"), cwd=str(repo)).context.local_host
    base = commit_file(repo, "shop.py", SHOP)
    assert not LineSelection(local, str(repo), str(repo), base).is_unaffected("tests/test_a.py::test_pear", base)
