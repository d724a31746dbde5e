"""The sample project is in the troubles that its README names, and the mechanic leaves each as it says there."""

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


def all_tests() -> list[str]:
    """All node ids."""
    return [
        f"tests/{path.name}::{node.name}"
        for path in sorted((SAMPLE / "tests").glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def told(test: str) -> str:
    """How the README begins to say what becomes of it: its outcome."""
    name = test.rpartition("::")[2]
    rows = [row for row in README.split("\n") if re.search(rf"[:`]{name}`", row)]
    assert len(rows) == 1, name
    return rows[0].rstrip(" |").rpartition("| ")[2].partition(":")[0] if rows[0].startswith("|") else "unchanged"


def test_every_test_is_told_of_once() -> None:
    outcomes = [told(test) for test in all_tests()]
    assert {word: outcomes.count(word) for word in set(outcomes)} == {
        "fixed": 5, "improved": 4, "blocked": 7, "unchanged": 8,
    }  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("test", all_tests())
def test_what_becomes_of_each(test: str, repo: Path) -> None:
    shutil.copytree(SAMPLE, repo, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    run_git(repo, "add", ".")
    run_git(repo, "commit", "-qm", "A pantry")
    asked = {
        "test": test,
        "command": [*PYTEST, test],
        "tutorial": "tutorial.sh",
        "k": 8 if "suggest" in test else 2,
    }
    made = job.repair_tests(asked, str(repo), str(repo.parent / "outputs"), lambda: None)
    assert made["outcome"] == told(test), made["summary"]
    assert run_git(repo, "status", "--porcelain") == ""
    made_kinds = re.findall(r"^\[(\w+)\]", run_git(repo, "log", "--reverse", "--format=%s"), re.MULTILINE)
    assert made_kinds == [change["kind"] for change in made["changes"]]
    assert made["after"] == ("flaky" if "suggest" in test else "fail" if told(test) == "blocked" else "pass")
