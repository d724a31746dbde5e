"""`make demo`: a real session that says what it does, and leaves nothing behind but what it ends with."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conftest import IS_FULL_SCALE, run_git
from tests.support.paths import ROOT

DEMO = ROOT / "examples" / "demo.sh"


def test_the_demo_does_what_it_shows_and_cleans_up(tmp_path: Path, env: dict[str, str]) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    only = [] if IS_FULL_SCALE else ["tests/test_look.py::test_list_sorted", "tests/test_begin.py::test_init"]
    done = subprocess.run(
        ["sh", DEMO, *only], cwd=tmp_path, env={**env, "TMPDIR": str(place)}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [line for line in done.stdout.splitlines() if line.startswith("$ mngr ")]
    assert {line.split()[2] for line in shown} >= set("create list message wait diff pull destroy undestroy".split())
    assert "the test passes" in done.stdout
    assert "fixed\tconfirmed\ttests/test_look.py::test_list_sorted" in done.stdout
    assert "mngr/demo/integrated: green" in done.stdout
    assert "[FIX_TEST] test_list_sorted: " in done.stdout.partition("$ git log --stat")[2]
    if IS_FULL_SCALE:
        log = done.stdout.partition("$ git log --stat")[2]
        assert log.index("[FIX_IMPL] An amount may have a fraction") < log.index("[FIX_TEST]"), "on top"
    assert not Path(env["MNGR_HOME"]).exists()
    (top,) = place.iterdir()
    assert [path.name for path in top.iterdir()] == ["pantry"]
    run = top / "pantry/.mngr/runs/demo"
    assert done.stdout.rpartition("\n# ")[2].count(str(run)) == 2
    told = (run / "PR.md").read_text()
    assert "test_list_sorted" in told
    if IS_FULL_SCALE:
        assert "1. **An amount may have a fraction** `" in told
        assert "without it fail for the same reason, with it pass" in told
    assert "test_list_sorted" in (run / "report/index.html").read_text()
    assert "mngr/demo/integrated" in run_git(top / "pantry", "branch", "--list")


def test_a_demo_that_fails_cleans_up_and_says_so(tmp_path: Path, env: dict[str, str]) -> None:
    place, programs = tmp_path / "tmp", tmp_path / "bin"
    place.mkdir()
    programs.mkdir()
    (programs / "mngr").write_text("#!/bin/sh\nexit 7\n")
    (programs / "mngr").chmod(0o755)
    path = f"{programs}:{env['PATH']}"
    done = subprocess.run(
        ["sh", DEMO], env={**env, "PATH": path, "TMPDIR": str(place)}, capture_output=True, check=False
    )
    assert done.returncode == 7
    assert list(place.iterdir()) == []
