"""`run_pipeline` from Python: one call takes a run from its plan to the branch, the pull request text and the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.mapreduce.governor import RunLimits
from mngr.mapreduce.journal.journal_file import encode_row
from mngr.mapreduce.run_dir import RunDir
from mngr.mapreduce.run_repo import create_run
from mngr.tmr.pipeline import RunObserver, run_pipeline
from mngr.tmr.run_plan import RunPlan, save_plan
from mngr.web.report.report import LiveReport
from tests.conftest import MngrProgram, run_git

pytestmark = pytest.mark.agents

# The scripted agent repairs the one bug of the project.
STEPS: list[dict[str, Any]] = [
    {"edit": {"path": "calc.py", "old": "a - b", "new": "a + b"}},
    {"commit": "[FIX_IMPL] Add, not subtract"},
    {"result": {"outcome": "fixed", "before": "fail", "after": "pass"}},
]


@pytest.fixture
def fleet(mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Return a fleet in a repository with one failing test."""
    (mngr.repo / "conftest.py").touch()
    (mngr.repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (mngr.repo / "test_calc.py").write_text("import calc\n\n\ndef test_sum():\n    assert calc.add(2, 1) == 3\n")
    run_git(mngr.repo, "add", "-A")
    run_git(mngr.repo, "commit", "-qm", "a bug")
    for name, value in mngr.env.items():
        monkeypatch.setenv(name, value)
    return Fleet(str(mngr.home), cwd=str(mngr.repo))


def create_planned_run(fleet: Fleet, repo: Path) -> RunDir:
    """Create a run of the scripted agent on the repository."""
    run, base = create_run(fleet, str(repo), "r")
    pytest_command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    plan = RunPlan(
        base=base,
        pytest=pytest_command,
        agent="player",
        agent_args=[json.dumps(STEPS)],
        baseline_runs=1,
        receipt_runs=1,
    )
    save_plan(run, plan)
    return run


def test_one_call_gives_the_branch_and_the_report(fleet: Fleet, mngr: MngrProgram) -> None:
    run = create_planned_run(fleet, mngr.repo)
    row_types: list[str] = []
    observer = RunObserver(
        on_row=lambda row: row_types.append(str(encode_row(row)["type"])),
        report=LiveReport(fleet.context.local_host, run),
    )
    result = run_pipeline(fleet, run, RunLimits(), observer)
    assert result.state.is_finished and result.unanswered == {} and result.integration_error is None
    assert result.integration is not None and result.integration.verdict == "green"
    assert "a + b" in run_git(mngr.repo, "show", "mngr/r/integrated:calc.py")
    assert (Path(run.path) / "PR.md").exists() and (Path(run.path) / "report" / "index.html").exists()
    assert "settled" in row_types


def test_a_declined_estimate_stops_the_run_before_its_first_agent(fleet: Fleet, mngr: MngrProgram) -> None:
    run = create_planned_run(fleet, mngr.repo)
    result = run_pipeline(fleet, run, RunLimits(), RunObserver(confirm=lambda estimate: False))
    assert result.state.tasks == {} and result.integration is None
    assert fleet.list().agents == []
    assert run_git(mngr.repo, "branch", "--list", "mngr/r/*") == ""
