"""What the hooks of coding agents run, on hosts as they come."""

from __future__ import annotations

import json
import re
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


MESSAGE, END = ("message", "RUNNING"), ("turn_end", "WAITING", "end_of_turn")
READY, FAILED = ("ready", "WAITING", "end_of_turn"), ("turn_failed", "WAITING", "end_of_turn")
TOOL, ASKS = ("tool_start", "RUNNING"), ("permission", "WAITING", "permission")


@pytest.mark.parametrize(
    ("hooks", "is_sure"),
    [
        ([READY, MESSAGE, END], True),
        ([READY, MESSAGE, TOOL, ASKS, TOOL, END, MESSAGE, END], True),
        ([READY, MESSAGE, MESSAGE, END], False),
        ([READY, MESSAGE, TOOL, MESSAGE, TOOL, END], False),
        ([READY, MESSAGE, ASKS, MESSAGE, END], False),
        ([READY, MESSAGE, MESSAGE, END, MESSAGE, END], False),  # which one does it answer?
        ([READY, MESSAGE, FAILED, MESSAGE, END], True),
        ([MESSAGE, END], False),
    ],
)
def test_the_end_of_a_turn_that_one_message_began_is_sure(
    plain: Land, tmp_path: Path, hooks: list[tuple[str, ...]], is_sure: bool
) -> None:
    """Else it says when the last message came, for that may begin the next turn."""
    for words in hooks:
        tell(plain, tmp_path, {}, *words)
    assert ("message_at" not in json.loads((tmp_path / "status").read_text())) is is_sure


def test_a_message_of_long_ago_begins_no_turn(plain: Land, tmp_path: Path) -> None:
    for words in (READY, MESSAGE, MESSAGE):
        tell(plain, tmp_path, {}, *words)
    events = tmp_path / "events.jsonl"
    events.write_text(re.sub(r"T\d\d:\d\d:\d\d", "T00:00:00", events.read_text()))
    tell(plain, tmp_path, {}, *END)
    assert "message_at" not in (tmp_path / "status").read_text()


@pytest.mark.parametrize("plain", ["dash", "bash"], indirect=True)  # busybox has its own sleep
@pytest.mark.parametrize(
    ("place", "first", "waits"),
    [
        (
            "claude/projects/w",
            '{"type":"mode"}',
            True,
        ),  # some write nothing of the conversation until it rests
        ("claude/projects/w", '{"type":"user"}', True),
        ("claude/projects/w", '{"type":"assistant"}', False),
        ("gemini/chats", '{"type":"user"}', False),
    ],
)
def test_a_turn_ends_when_its_answer_is_written_down(
    plain: Land, tmp_path: Path, place: str, first: str, waits: bool
) -> None:
    record = tmp_path / place / "s.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text(first + "\n")
    late = plain.bin / "sleep"  # the answer comes while the hook waits
    late.unlink(missing_ok=True)
    late.write_text(f'#!/bin/sh\necho \'{{"type":"assistant"}}\' >>{record}\n')
    late.chmod(0o755)
    tell(plain, tmp_path, {"transcript_path": str(record)}, *END)
    assert record.read_text().splitlines() == [first, *['{"type":"assistant"}'] * waits]


def test_a_tool_that_asks_is_at_work_before(plain: Land, tmp_path: Path) -> None:
    said = {"tool_name": "AskUserQuestion", "tool_input": {}}
    assert tell(plain, tmp_path, said, "tool_start", "RUNNING") == ("RUNNING", "tool_start")
