"""The script that the hooks of coding agents run, on hosts of every kind."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.host.scripts.conftest import Land


def run_hook(land: Land, folder: Path, payload: object, *words: str) -> tuple[str, str]:
    """Run the hook and return the state and event type that it writes."""
    argv = land.argv("hook.sh", *words)
    env = {**land.env, "MNGR_AGENT_DIR": str(folder)}
    text = json.dumps(payload, separators=(",", ":"))
    result = subprocess.run(argv, env=env, input=text, capture_output=True, text=True, check=True, timeout=5)
    assert (result.stdout, result.stderr) == ("", "")
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
def test_a_question_and_a_permission_request_are_told_apart(
    plain: Land, tmp_path: Path, said: object, expected: str
) -> None:
    answer = run_hook(plain, tmp_path, said, "permission", "WAITING", "permission")
    assert answer == (f"WAITING {expected}", expected)


def test_a_hook_with_a_long_payload_is_fast(plain: Land, tmp_path: Path) -> None:
    payload = {"tool_name": "Write", "tool_input": {"content": "x" * 1_000_000}}
    assert run_hook(plain, tmp_path, payload, "permission", "WAITING", "permission")[1] == "permission"


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
        ([READY, MESSAGE, MESSAGE, END, MESSAGE, END], False),  # it is unclear which message the turn answers
        ([READY, MESSAGE, FAILED, MESSAGE, END], True),
        ([MESSAGE, END], False),
    ],
)
def test_the_end_of_a_turn_is_certain_only_after_a_single_message(
    plain: Land, tmp_path: Path, hooks: list[tuple[str, ...]], is_sure: bool
) -> None:
    """Otherwise the status has the time of the last message, which may begin the next turn."""
    for words in hooks:
        run_hook(plain, tmp_path, {}, *words)
    assert ("message_at" not in json.loads((tmp_path / "status").read_text())) is is_sure


def test_an_old_message_does_not_make_the_end_of_a_turn_uncertain(plain: Land, tmp_path: Path) -> None:
    for words in (READY, MESSAGE, MESSAGE):
        run_hook(plain, tmp_path, {}, *words)
    events = tmp_path / "events.jsonl"
    events.write_text(re.sub(r"T\d\d:\d\d:\d\d", "T00:00:00", events.read_text()))
    run_hook(plain, tmp_path, {}, *END)
    assert "message_at" not in (tmp_path / "status").read_text()


def make_transcript_row(second: int, role: str, text: str, prompt: str = "") -> str:
    """Return a row of Claude Code's transcript."""
    kind = "tool_result" if text == "result" else "text"
    row = {"type": role, "message": {"content": [{"type": kind, "text": text}]}, "promptId": prompt}
    return json.dumps({**row, "timestamp": f"2026-11-16T04:00:0{second}.000Z"}, separators=(",", ":"))


BEFORE, ASKED, TOLD = (
    make_transcript_row(1, "assistant", "fine"),
    make_transcript_row(2, "user", "q", "p"),
    make_transcript_row(3, "assistant", "fine"),
)
CALL, RESULT = make_transcript_row(3, "assistant", "on it"), make_transcript_row(4, "user", "result", "p")


@pytest.mark.parametrize("plain", ["dash", "bash"], indirect=True)  # busybox has its own sleep
@pytest.mark.parametrize(
    ("there", "late"),
    [
        ([ASKED, TOLD], ""),
        ([TOLD, ASKED], ""),  # some versions write in this order
        (['{"type":"mode"}'], f"{ASKED}\n{TOLD}"),  # or write nothing until the turn ends
        ([BEFORE, ASKED], TOLD),
        ([BEFORE], f"{ASKED}\n{TOLD}"),
        ([TOLD], ASKED),
        ([BEFORE, ASKED, CALL, RESULT], TOLD),
        ([BEFORE, ASKED, TOLD, RESULT], make_transcript_row(5, "assistant", "fine")),
    ],
)
def test_the_hook_waits_until_the_transcript_contains_the_turn(
    plain: Land, tmp_path: Path, there: list[str], late: str
) -> None:
    payload = {"prompt_id": "p", "last_assistant_message": "fine"}
    assert read_transcript_after_hook(plain, tmp_path, "claude/projects/w", payload, there, late) == [
        *there,
        *late.split(),
    ]


@pytest.mark.parametrize("plain", ["dash"], indirect=True)
def test_the_hook_does_not_wait_for_transcripts_of_other_kinds(plain: Land, tmp_path: Path) -> None:
    there = ['{"type":"user"}']
    assert read_transcript_after_hook(plain, tmp_path, "gemini/chats", {}, there, TOLD) == there


def read_transcript_after_hook(
    plain: Land, folder: Path, directory: str, payload: dict[str, str], there: list[str], late: str
) -> list[str]:
    """Return the transcript when the hook ends. Each wait of the hook appends the `late` rows."""
    transcript = folder / directory / "s.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("".join(f"{row}\n" for row in there))
    sleep = plain.bin / "sleep"
    sleep.unlink(missing_ok=True)
    sleep.write_text(f"#!/bin/sh\ncat >>{transcript} <<'end'\n{late}\nend\n")
    sleep.chmod(0o755)
    run_hook(plain, folder, {"transcript_path": str(transcript), **payload}, *END)
    return transcript.read_text().splitlines()


def test_the_start_of_a_question_tool_counts_as_running(plain: Land, tmp_path: Path) -> None:
    payload = {"tool_name": "AskUserQuestion", "tool_input": {}}
    assert run_hook(plain, tmp_path, payload, "tool_start", "RUNNING") == ("RUNNING", "tool_start")
