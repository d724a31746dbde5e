"""The tests of the sample project have the outcomes that its README announces."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from pathlib import Path

import pytest

from mngr.kinds.mechanic.program import repair as job
from tests.conftest import run_git
from tests.support.paths import ROOT

SAMPLE = ROOT / "src" / "mngr" / "testkit" / "sample"
README = (SAMPLE / "README.md").read_text()
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:hypothesispytest"]


def list_tests() -> list[str]:
    """Return all node ids."""
    return [
        f"tests/{path.name}::{node.name}"
        for path in sorted((SAMPLE / "tests").glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def read_announced_outcome(test: str) -> str:
    """Return the outcome that the README announces for a test."""
    name = test.rpartition("::")[2]
    rows = [row for row in README.split("\n") if re.search(rf"[:`]{name}`", row)]
    assert len(rows) == 1, name
    return rows[0].rstrip(" |").rpartition("| ")[2].partition(":")[0] if rows[0].startswith("|") else "unchanged"


def test_the_readme_announces_every_test_once() -> None:
    outcomes = [read_announced_outcome(test) for test in list_tests()]
    assert {word: outcomes.count(word) for word in set(outcomes)} == {
        "fixed": 5, "improved": 4, "blocked": 7, "unchanged": 8,
    }  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("test", list_tests())
def test_each_test_has_the_announced_outcome(test: str, repo: Path) -> None:
    shutil.copytree(SAMPLE, repo, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-qm", "A pantry")
    request = {
        "test": test,
        "command": [*PYTEST, test],
        "tutorial": "tutorial.sh",
        "runs": 8 if "suggest" in test else 2,
    }
    result = job.repair_tests(request, str(repo), str(repo.parent / "outputs"), lambda: None)
    assert result["outcome"] == read_announced_outcome(test), result["summary"]
    assert run_git(repo, "status", "--porcelain") == ""
    committed_kinds = re.findall(r"^\[(\w+)\]", run_git(repo, "log", "--reverse", "--format=%s"), re.MULTILINE)
    assert committed_kinds == [change["kind"] for change in result["changes"]]
    assert result["after"] == (
        "flaky" if "suggest" in test else "fail" if read_announced_outcome(test) == "blocked" else "pass"
    )
