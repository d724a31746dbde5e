"""The states and transcripts of Gemini CLI, from evidence recorded with the real program."""

from __future__ import annotations

from typing import Any

import pytest

from mngr.base import time_format
from mngr.base.model import AgentRecord, Evidence
from mngr.base.untrusted_json import as_object
from mngr.kinds import state_from_screen
from mngr.kinds.gemini.kind import GeminiKind
from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry
from tests.support.paths import ROOT

CORPUS = ROOT / "tests/corpus/gemini"
KIND = GeminiKind("gemini", dict)
MADE = "2026-11-16T04:00:00.000Z"
RECORD = AgentRecord(
    id="a-0123456789ab", name="foo", kind="gemini", phase="ready", project="p", source=None, work_dir="/w",
    transfer="none", created_at=MADE,
)  # fmt: skip
READY, WORKING, ASKS = "◇  Ready (w)", "✦  Working… (w)", "✋  Action Required (w)"


def derive(status: dict[str, Any] | None, title: str, screen: str | None = None) -> tuple[Any, ...]:
    pane = {"session": "foo", "pane": "%1", "pid": "7", "dead": "0", "activity": "1", "attached": "0"}
    hook_status = None if status is None else {**status, "at": MADE}
    evidence = Evidence(
        now=time_format.parse_timestamp(MADE) + 5, pane={**pane, "title": title}, hook_status=hook_status, screen=screen
    )
    state = KIND.state(RECORD, evidence)
    return state.state, state.reason, state.source


RUNNING = {"state": "RUNNING", "reason": ""}
ENDED = {"state": "WAITING", "reason": "end_of_turn"}
PERMISSION = {"state": "WAITING", "reason": "permission"}
QUESTION = {"state": "WAITING", "reason": "question"}


@pytest.mark.parametrize(
    ("status", "title", "expected"),
    [
        (None, READY, ("STARTING", None, "process")),  # its title appears before it accepts messages
        (RUNNING, WORKING, ("RUNNING", None, "hook")),
        (ENDED, READY, ("WAITING", "end_of_turn", "hook")),
        (PERMISSION, ASKS, ("WAITING", "permission", "hook")),
        (PERMISSION, WORKING, ("RUNNING", None, "screen")),  # it was answered
        (QUESTION, ASKS, ("WAITING", "question", "hook")),
        (QUESTION, WORKING, ("RUNNING", None, "screen")),
        (RUNNING, ASKS, ("WAITING", "question", "screen")),
        ({**ENDED, "error": "rate_limit"}, READY, ("PARKED", "rate_limit", "hook")),
        ({**ENDED, "error": "authentication_failed"}, READY, ("PARKED", "login", "hook")),
        ({**ENDED, "error": "usage_limit"}, READY, ("PARKED", "quota", "hook")),
        ({**ENDED, "error": "failed"}, READY, ("WAITING", "end_of_turn", "hook")),
    ],
)
def test_hooks_and_the_title_decide_the_state(status: Any, title: str, expected: tuple[Any, ...]) -> None:
    assert derive(status, title) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gave-up", ("PARKED", "rate_limit")), ("quota", ("PARKED", "quota")), ("idle", None)],
)
def test_the_screen_shows_that_it_gave_up(name: str, expected: tuple[str, str] | None) -> None:
    screen = (CORPUS / f"{name}.txt").read_text()
    assert state_from_screen.find_state("gemini", screen) == expected
    assert derive(RUNNING, WORKING, screen)[:2] == (expected or ("RUNNING", None))


def test_the_end_of_a_quota_is_read_from_the_screen() -> None:
    screen = (CORPUS / "quota.txt").read_text()
    quota_screen = screen.replace("│ /stats", "│ Access resets at 5:04 PM UTC.  │\n│ /stats")
    pane = {"dead": "0", "title": WORKING}
    evidence = Evidence(
        now=time_format.parse_timestamp(MADE), pane=pane, hook_status={**RUNNING, "at": MADE}, screen=quota_screen
    )
    assert KIND.state(RECORD, evidence).parked_until == "2026-11-16T17:04:00.000Z"


def test_a_conversation_is_converted_to_the_schema() -> None:
    lines = (CORPUS / "conversation.jsonl").read_bytes().split(b"\n")
    rows = list(KIND.parse_transcript([*lines, *lines]))  # Gemini CLI may write the rows again after a resume
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant", "assistant"]
    tool = rows[2]
    assert (tool.tool, as_object(tool.input)["command"]) == ("run_shell_command", "ls")
    assert "Output: a" in str(tool.output)
    assert [row.text for row in rows[1::2]] == ["on it", "all done"]
    usage = rows[1].usage
    assert usage is not None and (usage.input_tokens or 0) > 1000 and rows[1].model == "gemini-2.5-pro"
    assert rows[4].text.startswith("[API Error") and all(row.at for row in rows)


def test_cached_tokens_and_thoughts_are_counted_once() -> None:
    row = b'{"id":"x","type":"gemini","content":"","tokens":{"input":100,"cached":30,"output":5,"thoughts":2}}'
    (parsed,) = KIND.parse_transcript([row])
    assert parsed.usage == TokenUsage(input_tokens=70, output_tokens=7, cache_read_tokens=30)


def test_invalid_rows_are_ignored() -> None:
    lines = [
        b"",
        b"{",
        b"[]",
        b'{"id":3}',
        b'{"id":"a","type":"user"}',
        b'{"id":"b","type":"gemini"}',
        b"\xff",
    ]
    assert list(
        KIND.parse_transcript([*lines, b'{"id":"c","type":"gemini","toolCalls":[3,{"status":"success"}]}'])
    ) == [TranscriptEntry(role="tool", output="")]


def test_a_final_backslash_or_line_end_does_not_block_the_message() -> None:
    assert KIND.delivery(RECORD, "C:\\").text == "C:\\ "
    assert KIND.delivery(RECORD, "two lines\n\n").text == "two lines"
