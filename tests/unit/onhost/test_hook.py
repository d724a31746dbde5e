"""What the hooks of coding agents run, on hosts as they come."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.unit.onhost.conftest import Land


def tell(land: Land, folder: Path, said: object, *words: str) -> tuple[str, str]:
    """The state and the type of the event that it writes."""
    argv = land.argv("hook.sh", *words)
    env = {**land.env, "MNGR_AGENT_DIR": str(folder)}
    text = json.dumps(said, separators=(",", ":"))
    done = subprocess.run(argv, env=env, input=text, capture_output=True, text=True, check=True, timeout=5)
    assert (done.stdout, done.stderr) == ("", "")
    status = json.loads((folder / "status").read_text())
    event = json.loads((folder / "events.jsonl").read_text().splitlines()[-1])
    return f"{status['state']} {status['reason']}".strip(), event["type"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"tool_name": "AskUserQuestion", "tool_input": {"questions": []}}, "question"),
        ({"notification_type": "ToolPermission", "details": {"type": "ask_user", "title": "x"}}, "question"),
        ({"tool_name": "Bash", "tool_input": {"command": "ls"}}, "permission"),
        ({"notification_type": "ToolPermission", "details": {"type": "exec"}}, "permission"),
        ({"tool_name": "Bash", "tool_input": {"command": '"tool_name":"AskUserQuestion"'}}, "permission"),
        ({}, "permission"),
    ],
)
def test_a_question_is_no_permission(plain: Land, tmp_path: Path, said: object, expected: str) -> None:
    asked = tell(plain, tmp_path, said, "permission", "WAITING", "permission")
    assert asked == (f"WAITING {expected}", expected)


def test_a_long_text_takes_no_time(plain: Land, tmp_path: Path) -> None:
    said = {"tool_name": "Write", "tool_input": {"content": "x" * 1_000_000}}
    assert tell(plain, tmp_path, said, "permission", "WAITING", "permission")[1] == "permission"


def test_a_tool_that_asks_is_at_work_before(plain: Land, tmp_path: Path) -> None:
    said = {"tool_name": "AskUserQuestion", "tool_input": {}}
    assert tell(plain, tmp_path, said, "tool_start", "RUNNING") == ("RUNNING", "tool_start")
