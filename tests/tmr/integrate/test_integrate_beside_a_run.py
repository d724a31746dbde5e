"""`mngr tmr integrate` during a run, and during another integration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mngr.base.lock import Lock
from mngr.mapreduce.run_dir import RunDir
from tests.conftest import BIN_DIR, MngrProgram, run_git, wait_for
from tests.support.journal_file import read_json_rows
from tests.tmr.test_tmr import FIX, order, project, result

pytestmark = pytest.mark.agents

assert project  # the fixture
SUB = "def sub(a, b):\n    return a + b\n"
TEST = "import {name}\n\n\ndef test_{fun}():\n    assert {name}.{fun}(3, 1) == {value}\n"


def fix_steps(step: dict[str, Any], subject: str) -> list[object]:
    fixed = result(outcome="fixed", before="fail", after="pass")
    return [step, {"commit": f"[FIX_IMPL] {subject}"}, fixed]


@pytest.fixture
def two_failing_tests(project: MngrProgram, tmp_path: Path) -> tuple[MngrProgram, Path]:
    """Return a project with two failing tests, and a file for which the second agent waits."""
    (project.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (project.repo / "less.py").write_text(SUB)
    (project.repo / "tests").mkdir()
    for name, fun, value in (("calc", "add", 4), ("less", "sub", 2)):
        (project.repo / f"tests/test_{fun}.py").write_text(TEST.format(name=name, fun=fun, value=value))
    run_git(project.repo, "add", "-A")
    run_git(project.repo, "commit", "-qm", "two tests")
    return project, tmp_path / "gate"


def test_settled_tasks_are_integrated_while_others_still_run(two_failing_tests: tuple[MngrProgram, Path]) -> None:
    project, gate = two_failing_tests
    wait_step = {"run": f"while [ ! -e {gate} ]; do sleep 0.1; done"}
    second_fix = fix_steps({"edit": {"path": "less.py", "old": "a + b", "new": "a - b"}}, "Less")
    cases: dict[str, list[object]] = {"*add": fix_steps(FIX, "Add"), "*sub": [wait_step, *second_fix]}
    command = [word for word in order("r", cases) if word != "--no-integrate"]
    stderr_file = gate.with_name("said")
    with stderr_file.open("w") as file:
        run = subprocess.Popen([str(BIN_DIR / "mngr"), *command], cwd=project.repo, env=project.env, stderr=file)
    try:
        journal = RunDir(str(project.repo), "r").journal

        def has_row(kind: str) -> bool:
            return Path(journal).exists() and any(row["type"] == kind for row in read_json_rows(journal))

        wait_for(lambda: has_row("launched"), 60)
        assert project("tmr", "integrate", "r").code == 0
        wait_for(lambda: has_row("settled"), 60)
        partial = project("tmr", "integrate", "r")
        assert "1 task is not finished" in partial.out
        assert "fail now: " not in partial.out, "it never was green"
        pr_text = Path(project.repo, ".mngr/runs/r/PR.md").read_text()
        assert "1 task is not finished, so this result is not final." in pr_text
        first = run_git(project.repo, "log", "--format=%s", "main..mngr/r/integrated")
        assert first == "[FIX_IMPL] Add"
        lock = Lock(str(Path(project.repo, ".mngr/runs/r/integrate.lock")))
        with lock:  # another integration, which is still running when the run ends
            gate.touch()
            wait_for(lambda: "another integration of r is running" in stderr_file.read_text(), 60)
        assert run.wait(60) == 0
    finally:
        gate.touch()
        run.kill()
    integration = json.loads(Path(project.repo, ".mngr/runs/r/integration.json").read_text())
    assert (integration["verdict"], integration["open"], len(integration["commits"])) == ("green", 0, 2)
    assert not run_git(project.repo, "status", "--porcelain")
