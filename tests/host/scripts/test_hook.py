"""What the hooks of coding agents run, on hosts as they come."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.host.scripts.conftest import Land


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


def said_at(second: int, role: str, text: str, prompt: str = "") -> str:
    """A row of Claude Code's record."""
    kind = "tool_result" if text == "result" else "text"
    row = {"type": role, "message": {"content": [{"type": kind, "text": text}]}, "promptId": prompt}
    return json.dumps({**row, "timestamp": f"2026-11-16T04:00:0{second}.000Z"}, separators=(",", ":"))


BEFORE, ASKED, TOLD = (
    said_at(1, "assistant", "fine"),
    said_at(2, "user", "q", "p"),
    said_at(3, "assistant", "fine"),
)
CALL, RESULT = said_at(3, "assistant", "on it"), said_at(4, "user", "result", "p")


@pytest.mark.parametrize("plain", ["dash", "bash"], indirect=True)  # busybox has its own sleep
@pytest.mark.parametrize(
    ("there", "late"),
    [
        ([ASKED, TOLD], ""),
        ([TOLD, ASKED], ""),  # some write it down in this order
        (['{"type":"mode"}'], f"{ASKED}\n{TOLD}"),  # or nothing of the conversation until it rests
        ([BEFORE, ASKED], TOLD),
        ([BEFORE], f"{ASKED}\n{TOLD}"),
        ([TOLD], ASKED),
        ([BEFORE, ASKED, CALL, RESULT], TOLD),
        ([BEFORE, ASKED, TOLD, RESULT], said_at(5, "assistant", "fine")),
    ],
)
def test_a_turn_ends_when_it_is_written_down(plain: Land, tmp_path: Path, there: list[str], late: str) -> None:
    said = {"prompt_id": "p", "last_assistant_message": "fine"}
    assert record_after(plain, tmp_path, "claude/projects/w", said, there, late) == [*there, *late.split()]


@pytest.mark.parametrize("plain", ["dash"], indirect=True)
def test_other_records_are_not_waited_for(plain: Land, tmp_path: Path) -> None:
    there = ['{"type":"user"}']
    assert record_after(plain, tmp_path, "gemini/chats", {}, there, TOLD) == there


def record_after(plain: Land, folder: Path, place: str, said: dict[str, str], there: list[str], late: str) -> list[str]:
    """The record of a conversation when the hook ends; what is late comes each time that it waits."""
    record = folder / place / "s.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text("".join(f"{row}\n" for row in there))
    sleep = plain.bin / "sleep"
    sleep.unlink(missing_ok=True)
    sleep.write_text(f"#!/bin/sh\ncat >>{record} <<'end'\n{late}\nend\n")
    sleep.chmod(0o755)
    tell(plain, folder, {"transcript_path": str(record), **said}, *END)
    return record.read_text().splitlines()


def test_a_tool_that_asks_is_at_work_before(plain: Land, tmp_path: Path) -> None:
    said = {"tool_name": "AskUserQuestion", "tool_input": {}}
    assert tell(plain, tmp_path, said, "tool_start", "RUNNING") == ("RUNNING", "tool_start")
