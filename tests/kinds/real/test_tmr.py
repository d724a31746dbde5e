"""`mngr tmr run` with real coding agents and a scripted model: prompt, work, result, receipt."""

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
# The prompt itself contains the model's script, below the part that all agents get.
WRITE = """import json, os
row = {"v": 1, "task": os.environ["TASK"], "outcome": os.environ["OUTCOME"], "before": "pass", "after": "pass", "summary": "Looked at it."}
if row["outcome"] == "improved":
    commit = os.popen("git rev-parse HEAD").read().strip()
    row["changes"] = [{"kind": "IMPROVE_TEST", "summary": "One word.", "commits": [commit]}]
path = os.path.join(os.environ["MNGR_OUTPUT_DIR"], "result.json")
open(path + ".new", "w").write(json.dumps(row))
os.replace(path + ".new", path)
"""


def build_prompt(steps: list[dict[str, str]]) -> str:
    """Return the section of the prompt that makes a scripted model do these steps."""
    return f"## Task\n\n{{{{task}}}}\n\n{{{{command}}}}\n\n<fake>{json.dumps(steps)}</fake>\n"


def build_result_step(outcome: str) -> dict[str, str]:
    return {"sh": f"TASK='{{{{task}}}}' OUTCOME={outcome} python3 - <<'EOF'\n{WRITE}EOF"}


@pytest.fixture
def team(coder: MngrProgram, model: ModelServer) -> MngrProgram:
    coder.env["ANTHROPIC_BASE_URL"] = model.url("tmr")
    coder.env["ANTHROPIC_AUTH_TOKEN"] = "hush-hush"
    coder.env["MNGR__YOLO__ANYWHERE"] = "true"
    return coder


def run_tmr(team: MngrProgram, *arguments: str, timeout: float) -> list[dict[str, Any]]:
    options = ("--agent", "claude", "--yolo", "--runs", "1", "--format", "json")
    tasks: list[dict[str, Any]] = team("tmr", "run", *arguments, *options, timeout=timeout).parse_json()["tasks"]
    return tasks


def test_a_coding_agent_completes_a_run(team: MngrProgram) -> None:
    team.env["MNGR__PROJECT__PYTEST"] = f"{sys.executable} -m pytest -q -p no:cacheprovider"
    shutil.copytree(ROOT / "src" / "mngr" / "testkit" / "sample", team.repo, dirs_exist_ok=True)
    commit = "sed -i 's/Things go in/Things come in/' tests/test_stock.py && git commit -qam '[IMPROVE_TEST] A word'"
    text = build_prompt([{"sh": commit}, build_result_step("improved"), {"text": "Done."}])
    (team.repo / ".mngr" / "prompt.md").write_text(text)
    run_git(team.repo, "add", "-A")
    run_git(team.repo, "commit", "-qm", "a pantry")
    team("trust", "--yes")
    tests = ["tests/test_stock.py::test_take", "tests/test_stock.py::test_forget"]
    tasks = run_tmr(team, *tests, "--name", "r", timeout=120)
    assert [(task["task"], task["claimed"], task["verdict"], task["outcome"]) for task in tasks] == [
        (test, "improved", "confirmed", "improved") for test in tests
    ]
    assert all(task["usage"]["output_tokens"] > 0 for task in tasks)
    transcript = Path(team.repo, ".mngr/runs/r/tasks", tasks[0]["slug"], "transcript.jsonl").read_text()
    rows = [json.loads(line) for line in transcript.splitlines()]
    assert rows[0]["role"] == "user" and rows[-1]["text"] == "Done."


@pytest.mark.full
def test_twenty_agents_work_on_the_tests_of_mngr_at_once(team: MngrProgram, tmp_path: Path) -> None:
    clone = tmp_path / "own"
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", ROOT, clone], check=True)
    (clone / ".mngr" / "prompt.md").write_text(build_prompt([build_result_step("unchanged"), {"text": "Done."}]))
    run_git(clone, "add", "-A")
    run_git(clone, "commit", "-qm", "a prompt")
    mngr = MngrProgram(clone, team.home, team.env)
    paths = [f"tests/docs/tutorial/test_{name}.py" for name in ("life", "list", "talk")]
    tasks = run_tmr(mngr, *paths, "--max-agents", "20", "--canary", "0", timeout=1800)
    assert IS_FULL_SCALE and len(tasks) >= 20
    assert {(task["claimed"], task["verdict"], task["outcome"]) for task in tasks} == {
        ("unchanged", "confirmed", "unchanged")
    }
