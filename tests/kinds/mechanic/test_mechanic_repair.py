"""Kind `mechanic` with failing tests of the sample project: one commit per change kind, a result, and no guesses."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.tmr.verify.claim import AgentClaim, read_claim
from tests.conftest import MngrProgram, run_git
from tests.support.paths import ROOT

SAMPLE = ROOT / "src" / "mngr" / "testkit" / "sample"
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:hypothesispytest"]


def repair(mngr: MngrProgram, test: str, runs: int) -> dict[str, Any]:
    job = {"job": "repair", "test": test, "command": [*PYTEST, test], "tutorial": "tutorial.sh", "runs": runs}
    message = f"Please repair it.\n\n```mngr-job\n{json.dumps(job)}\n```\n"
    mngr("message", "mech", "--wait", "--timeout", "120", stdin=message)
    mngr("pull", "mech")
    path = mngr.repo / ".mngr" / "outputs" / "mech" / "result.json"
    assert isinstance(read_claim(str(path), test), AgentClaim)
    result: dict[str, Any] = json.loads(path.read_text())
    return result


@pytest.mark.full  # `make test` runs a demo with some of these tests
def test_it_repairs_improves_or_blocks_tests_of_the_sample_project(mngr: MngrProgram) -> None:
    shutil.copytree(SAMPLE, mngr.repo, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "e2e"))
    run_git(mngr.repo, "add", ".")
    run_git(mngr.repo, "commit", "-qm", "A pantry")
    mngr("create", "mech", "mechanic", "--no-connect")
    work = Path(mngr.get_agent("mech")["work_dir"])

    # A renamed option: it changes the tutorial, its citation and the test, and adds a missing check.
    result = repair(mngr, "tests/test_stock.py::test_add_on_a_shelf", runs=1)
    assert (result["outcome"], result["before"], result["after"]) == ("fixed", "fail", "pass")
    commits = [(change["kind"], commit) for change in result["changes"] for commit in change["commits"]]
    assert [kind for kind, _ in commits] == ["FIX_TUTORIAL", "FIX_TEST", "IMPROVE_TEST"]
    for kind, commit in commits:
        assert run_git(work, "show", "-s", "--format=%s", commit).startswith(f"[{kind}] test_add_on_a_shelf: ")
    assert run_git(work, "show", "--name-only", "--format=", commits[0][1]).split() == [
        "tests/test_stock.py",
        "tutorial.sh",
    ]
    matches = run_git(work, "grep", "-h", "-e", "jam --shelf top", "--", "tutorial.sh", "tests")
    assert [row.strip() for row in matches.strip().split("\n")] == [
        "pantry add jam --shelf top",
        'expect(e2e.run("pantry add jam --shelf top")).to_succeed()',
        "pantry add jam --shelf top",
    ]
    assert "--place" not in run_git(work, "grep", "-h", "-e", "pantry add", "--", "tutorial.sh", "tests")

    # A test that checks only the exit code.
    result = repair(mngr, "tests/test_order.py::test_export", runs=2)
    assert (result["outcome"], result["before"], result["after"]) == ("improved", "pass", "pass")
    assert '(e2e.cwd / "pantry.csv").to_match_lines("""' in (work / "tests" / "test_order.py").read_text()

    # A bug of the program, and a value that may be wrong on either side: it changes nothing.
    head = run_git(work, "rev-parse", "HEAD")
    result = repair(mngr, "tests/test_stock.py::test_take_half", runs=1)
    assert (result["outcome"], result["before"], result["after"]) == ("blocked", "fail", "fail")
    [escalation] = result["escalations"]
    assert escalation["kind"] == "BLOCKER" and "ValueError" in escalation["title"]
    assert escalation["locations"][0]["path"] == "src/pantry/amounts.py"
    result = repair(mngr, "tests/test_look.py::test_low", runs=1)
    assert (result["outcome"], result["changes"]) == ("blocked", []) and result["escalations"][0]["kind"] == "AMBIGUOUS"
    assert run_git(work, "rev-parse", "HEAD") == head and run_git(work, "status", "--porcelain") == ""
