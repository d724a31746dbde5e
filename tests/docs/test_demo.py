"""`make demo`: a real session that works as shown, and leaves behind only its final project."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import IS_FULL_SCALE, run_git
from tests.support.paths import ROOT

DEMO = ROOT / "examples" / "demo.sh"


def test_the_demo_succeeds_and_cleans_up(tmp_path: Path, env: dict[str, str]) -> None:
    temp_dir = tmp_path / "tmp"
    temp_dir.mkdir()
    tests = [] if IS_FULL_SCALE else ["tests/test_look.py::test_list_sorted", "tests/test_begin.py::test_init"]
    completed = subprocess.run(
        ["sh", DEMO, *tests], cwd=tmp_path, env={**env, "TMPDIR": str(temp_dir)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr
    commands = [line for line in completed.stdout.splitlines() if line.startswith("$ mngr ")]
    assert {line.split()[2] for line in commands} >= set("create list message wait diff pull destroy undestroy".split())
    assert "the test passes" in completed.stdout
    assert "fixed\tconfirmed\ttests/test_look.py::test_list_sorted" in completed.stdout
    assert "Branch mngr/demo/integrated: " in completed.stdout
    assert "[FIX_TEST] test_list_sorted: " in completed.stdout.partition("$ git log --stat")[2]
    if IS_FULL_SCALE:
        log = completed.stdout.partition("$ git log --stat")[2]
        assert log.index("[FIX_IMPL] An amount may have a fraction") < log.index("[FIX_TEST]"), "on top"
    assert not Path(env["MNGR_HOME"]).exists()
    (top,) = temp_dir.iterdir()
    assert [path.name for path in top.iterdir()] == ["pantry"]
    run = top / "pantry/.mngr/runs/demo"
    assert completed.stdout.rpartition("\n# ")[2].count(str(run)) == 2
    pull_request = (run / "PR.md").read_text()
    assert "test_list_sorted" in pull_request and "without a sandbox" not in pull_request
    if IS_FULL_SCALE:
        assert "1. **An amount may have a fraction** `" in pull_request
        assert "without the fix: fail for the same reason; with it: pass" in pull_request
    assert "test_list_sorted" in (run / "report/index.html").read_text()
    assert "mngr/demo/integrated" in run_git(top / "pantry", "branch", "--list")


def test_a_failed_demo_cleans_up_and_returns_the_exit_code(tmp_path: Path, env: dict[str, str]) -> None:
    temp_dir, programs = tmp_path / "tmp", tmp_path / "bin"
    temp_dir.mkdir()
    programs.mkdir()
    (programs / "mngr").write_text("#!/bin/sh\nexit 7\n")
    (programs / "mngr").chmod(0o755)
    path = f"{programs}:{env['PATH']}"
    completed = subprocess.run(
        ["sh", DEMO], env={**env, "PATH": path, "TMPDIR": str(temp_dir)}, capture_output=True, check=False
    )
    assert completed.returncode == 7
    assert list(temp_dir.iterdir()) == []
