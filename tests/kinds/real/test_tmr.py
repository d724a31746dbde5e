"""An agent for each test, with real coding agents and a scripted model: brief, work, result, receipt."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mngr.testkit.modelserver import ModelServer
from tests.conftest import IS_FULL_SCALE, MngrProgram, run_git
from tests.support.paths import ROOT

KIND = "claude"
# What the model does stands in the brief itself, below what all agents are told.
WRITE = """import json, os
row = {"v": 1, "task": os.environ["TASK"], "outcome": os.environ["OUTCOME"], "before": "pass", "after": "pass", "summary": "Looked at it."}
if row["outcome"] == "improved":
    commit = os.popen("git rev-parse HEAD").read().strip()
    row["changes"] = [{"kind": "IMPROVE_TEST", "summary": "One word.", "commits": [commit]}]
path = os.path.join(os.environ["MNGR_OUTPUT_DIR"], "result.json")
open(path + ".new", "w").write(json.dumps(row))
os.replace(path + ".new", path)
"""


def brief(steps: list[dict[str, str]]) -> str:
    """The section of the brief that makes a scripted model do these steps."""
    return f"## Task\n\n{{{{task}}}}\n\n{{{{command}}}}\n\n<fake>{json.dumps(steps)}</fake>\n"


def write(outcome: str) -> dict[str, str]:
    return {"sh": f"TASK='{{{{task}}}}' OUTCOME={outcome} python3 - <<'EOF'\n{WRITE}EOF"}


@pytest.fixture
def team(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    coder.env["ANTHROPIC_BASE_URL"] = model.url("tmr")
    coder.env["ANTHROPIC_AUTH_TOKEN"] = "hush-hush"
    coder.env["MNGR__YOLO__ANYWHERE"] = "true"
    return coder


def run(team: MngrProgram, *words: str, timeout: float) -> list[dict[str, Any]]:
    options = ("--agent", "claude", "--yolo", "--runs", "1", "--format", "json")
    found: list[dict[str, Any]] = team("tmr", "run", *words, *options, timeout=timeout).parse_json()["tasks"]
    return found


def test_a_run_by_a_coding_agent(team: MngrProgram) -> None:
    team.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    shutil.copytree(ROOT / "src" / "mngr" / "testkit" / "sample", team.repo, dirs_exist_ok=True)
    commit = "sed -i 's/Things go in/Things come in/' tests/test_stock.py && git commit -qam '[IMPROVE_TEST] A word'"
    text = brief([{"sh": commit}, write("improved"), {"text": "Done."}])
    (team.repo / ".mngr" / "brief.md").write_text(text)
    run_git(team.repo, "add", "-A")
    run_git(team.repo, "commit", "-qm", "a pantry")
    tests = ["tests/test_stock.py::test_take", "tests/test_stock.py::test_forget"]
    found = run(team, *tests, "--name", "r", timeout=120)
    assert [(task["task"], task["claimed"], task["verdict"], task["outcome"]) for task in found] == [
        (test, "improved", "confirmed", "improved") for test in tests
    ]
    assert all(task["usage"]["output_tokens"] > 0 for task in found)
    said = Path(team.repo, ".mngr/runs/r/tasks", found[0]["slug"], "transcript.jsonl").read_text()
    rows = [json.loads(line) for line in said.splitlines()]
    assert rows[0]["role"] == "user" and rows[-1]["text"] == "Done."


@pytest.mark.full
def test_our_own_tests_by_twenty_at_once(team: MngrProgram, tmp_path: Path) -> None:
    own = tmp_path / "own"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, own], check=True)
    (own / ".mngr" / "brief.md").write_text(brief([write("unchanged"), {"text": "Done."}]))
    run_git(own, "add", "-A")
    run_git(own, "commit", "-qm", "a brief")
    mine = MngrProgram(own, team.home, team.env)
    paths = [f"tests/docs/tutorial/test_{name}.py" for name in ("life", "list", "talk")]
    found = run(mine, *paths, "--max-agents", "20", "--canary", "0", timeout=1800)
    assert IS_FULL_SCALE and len(found) >= 20
    assert {(task["claimed"], task["verdict"], task["outcome"]) for task in found} == {
        ("unchanged", "confirmed", "unchanged")
    }
