"""The states and transcripts of Claude Code, from evidence recorded with the real program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mngr.base import time_format
from mngr.base.model import AgentRecord, Evidence
from mngr.base.untrusted_json import as_object
from mngr.kinds import limit_resets, state_from_screen
from mngr.kinds.claude.kind import ClaudeKind, derive_session_id
from mngr.kinds.coding_agent import encode_message_marker
from tests.support.paths import ROOT

CORPUS = ROOT / "tests/corpus/claude"
KIND = ClaudeKind("claude", dict)
MADE = "2026-11-16T04:00:00.000Z"
PANE = {
    "session": "foo",
    "pane": "%1",
    "pid": "7",
    "dead": "0",
    "activity": "1",
    "attached": "0",
    "title": "x",
}


def timestamp(second: float) -> str:
    return time_format.format_timestamp(time_format.parse_timestamp(MADE) + second)


def derive(
    status: dict[str, Any] | None, program_status: dict[str, Any] | None, screen: str | None = None
) -> tuple[Any, ...]:
    """Return (state, reason, source) of a running agent; `s` in both dicts counts the seconds since its creation."""
    hook_status = None if status is None else {**status, "at": timestamp(status["s"])}
    program_status = (
        None
        if program_status is None
        else {**program_status, "statusUpdatedAt": (time_format.parse_timestamp(MADE) + program_status["s"]) * 1000}
    )
    record = AgentRecord(
        id="a-0123456789ab", name="foo", kind="claude", phase="ready", project="p", source=None, work_dir="/w",
        transfer="none", created_at=MADE,
    )  # fmt: skip
    now = time_format.parse_timestamp(MADE) + 100
    state = KIND.state(
        record, Evidence(now=now, pane=PANE, hook_status=hook_status, program_status=program_status, screen=screen)
    )
    return state.state, state.reason, state.source


RUNNING = {"state": "RUNNING", "reason": ""}
ENDED = {"state": "WAITING", "reason": "end_of_turn"}
ASKS = {"state": "WAITING", "reason": "permission"}


@pytest.mark.parametrize(
    ("status", "program_status", "expected"),
    [
        (None, None, ("STARTING", None, "process")),
        (None, {"status": "idle", "s": 1}, ("STARTING", None, "process")),  # no hook has reported that it accepts messages
        (None, {"status": "waiting", "waitingFor": "dialog open", "s": 1}, ("WAITING", "question", "program")),
        ({**RUNNING, "s": 5}, None, ("RUNNING", None, "hook")),
        ({**RUNNING, "s": 5}, {"status": "idle", "s": 4}, ("RUNNING", None, "hook")),  # the message is newer
        ({**RUNNING, "s": 5}, {"status": "idle", "s": 6}, ("WAITING", "end_of_turn", "program")),  # interrupted
        ({**RUNNING, "s": 99.5}, {"status": "idle", "s": 99.6}, ("RUNNING", None, "hook")),  # between two turns
        ({**RUNNING, "s": 99.5, "reason": "queued"}, {"status": "idle", "s": 99.6}, ("RUNNING", "queued", "hook")),
        ({**ENDED, "s": 5}, {"status": "busy", "s": 4}, ("WAITING", "end_of_turn", "hook")),
        ({**ENDED, "s": 5}, {"status": "busy", "s": 6}, ("RUNNING", None, "program")),  # it continues by itself
        ({**ENDED, "s": 5}, {"status": "shell", "s": 6}, ("RUNNING", "background", "program")),
        ({**ASKS, "s": 5}, {"status": "busy", "s": 6}, ("RUNNING", None, "program")),  # answered at its terminal
        ({**ASKS, "s": 5}, {"status": "waiting", "waitingFor": "permission prompt", "s": 6}, ("WAITING", "permission", "hook")),  # it is shown
        ({**RUNNING, "s": 5}, {"status": "waiting", "waitingFor": "permission prompt", "s": 6}, ("WAITING", "permission", "program")),
        ({**ASKS, "reason": "question", "s": 5}, {"status": "waiting", "waitingFor": "permission prompt", "s": 6}, ("WAITING", "question", "hook")),  # 2.1.197
        ({**RUNNING, "s": 5}, {"status": "waiting", "waitingFor": "input needed", "s": 6}, ("WAITING", "question", "program")),
        ({**ENDED, "s": 5, "error": "rate_limit"}, {"status": "idle", "s": 6}, ("PARKED", "rate_limit", "hook")),
        ({**ENDED, "s": 5, "error": "rate_limit"}, {"status": "waiting", "waitingFor": "dialog open", "s": 6}, ("PARKED", "rate_limit", "hook")),
        ({**ENDED, "s": 5, "error": "authentication_failed"}, None, ("PARKED", "login", "hook")),
        ({**ENDED, "s": 5, "error": "server_error"}, None, ("WAITING", "end_of_turn", "hook")),
        ({**ENDED, "s": 5}, {"status": ["?"], "s": 6}, ("WAITING", "end_of_turn", "hook")),  # an agent can write anything
        ({**ENDED, "s": 5}, {"status": "idle", "s": 1e300}, ("WAITING", "end_of_turn", "hook")),
    ],
)  # fmt: skip
def test_the_newest_evidence_decides_the_state(status: Any, program_status: Any, expected: tuple[Any, ...]) -> None:
    assert derive(status, program_status) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("retrying-1", ("RUNNING", "retrying")),
        ("retrying-2", ("RUNNING", "retrying")),
        ("idle", None),
        ("says-retrying", None),
    ],
)
def test_a_retry_is_recognized_on_the_screen(name: str, expected: tuple[str, str] | None) -> None:
    screen = (CORPUS / f"{name}.txt").read_text()
    assert state_from_screen.find_state("claude", screen) == expected
    state = derive({**RUNNING, "s": 5}, {"status": "busy", "s": 4}, screen)
    assert state == ("RUNNING", "retrying" if expected else None, "screen" if expected else "hook")


@pytest.mark.parametrize(
    ("text", "since", "expected"),
    [
        (
            "You've hit your 5-hour limit · resets 5:48am (UTC)",
            "2026-11-16T04:48:17.000Z",
            "2026-11-16T05:48:00.000Z",
        ),
        ("You've hit your limit · resets 3am (UTC)", "2026-11-16T04:48:17.000Z", "2026-11-17T03:00:00.000Z"),
        (
            "You've hit your weekly limit · resets Nov 20, 5pm (UTC)",
            "2026-11-16T04:48:17.000Z",
            "2026-11-20T17:00:00.000Z",
        ),
        (
            "You've hit your limit · resets Jan 2, 12am (UTC)",
            "2026-11-16T04:48:17.000Z",
            "2027-01-02T00:00:00.000Z",
        ),
        (
            "hit your limit · resets 7am (Europe/Berlin)",
            "2026-11-16T04:48:17.000Z",
            "2026-11-16T06:00:00.000Z",
        ),
        ("hit your limit · resets 7am (Nowhere/Land)", "2026-11-16T04:48:17.000Z", None),
    ],
)
def test_the_end_of_a_limit_is_parsed(text: str, since: str, expected: str | None) -> None:
    match = limit_resets.find_reset(text)
    assert match is not None and limit_resets.parse_reset(match, since, 0.0) == expected


def test_a_conversation_is_converted_to_the_schema() -> None:
    rows = list(KIND.parse_transcript((CORPUS / "conversation.jsonl").read_bytes().split(b"\n")))
    assert [(row.role, row.text) for row in rows[:2]] == [("user", "hello there"), ("assistant", "ok")]
    (tool,) = [row for row in rows if row.role == "tool"]
    assert (tool.tool, as_object(tool.input)["command"]) == ("Bash", "echo hi > out.txt; sleep 1")
    assert tool.output == "(Bash completed with no output)"
    answers = [row.usage for row in rows if row.usage]
    assert all((usage.input_tokens or 0) > 1000 and (usage.output_tokens or 0) > 0 for usage in answers)
    lines = [json.loads(line) for line in (CORPUS / "conversation.jsonl").read_text().splitlines()]
    ids = {row["message"]["id"] for row in lines if row["type"] == "assistant" and "msg_" in row["message"]["id"]}
    assert len(answers) == len(ids)  # every answer is counted once


def build_row(text: str, parent: str | None, second: float, role: str = "assistant") -> bytes:
    """Return a row as Claude writes it; its id is its text."""
    fields = {"type": role, "uuid": text, "parentUuid": parent, "timestamp": timestamp(second)}
    return json.dumps({**fields, "message": {"role": role, "content": text}}).encode()


def test_an_answer_that_was_written_first_comes_after_its_question() -> None:
    file = [build_row("b", "a", 2), build_row("c", "b", 3), build_row("a", None, 1, "user"), build_row("d", "c", 9)]
    assert [row.text for row in KIND.parse_transcript(file)] == ["a", "b", "c", "d"]


def test_a_missing_parent_row_delays_the_rest_only_briefly() -> None:
    file = iter([build_row("b", "gone", 2), build_row("c", "b", 3), build_row("d", "c", 8), build_row("e", "d", 8.1)])
    rows = KIND.parse_transcript(file)
    assert [next(rows).text for _ in range(3)] == ["b", "c", "d"]
    assert len(list(file)) == 1


def test_rows_whose_parent_is_missing_are_not_kept_forever() -> None:
    file = (build_row(str(number), "gone", 2) for number in range(1000))
    assert next(KIND.parse_transcript(file)).text == "0"
    assert len(list(file)) > 800


def test_usage_with_a_different_price_is_marked() -> None:
    def parse_usage(**extra: Any) -> Any:
        message = {"id": "msg_1", "model": "m", "content": "x", "usage": {"input_tokens": 5, **extra}}
        row = {"type": "assistant", "timestamp": MADE, "message": message}
        (parsed,) = KIND.parse_transcript([json.dumps(row).encode()])
        assert parsed.usage is not None
        return parsed.usage.to_dict()

    assert parse_usage(speed="standard", inference_geo="") == {"input_tokens": 5}
    cache_creation = {"ephemeral_1h_input_tokens": 2, "ephemeral_5m_input_tokens": 1}
    usage = parse_usage(cache_creation_input_tokens=3, cache_creation=cache_creation)
    assert usage == {"input_tokens": 5, "cache_write_tokens": 3, "cache_write_1h_tokens": 2}
    assert parse_usage(speed="fast") == parse_usage(inference_geo="us") == {"input_tokens": 5, "other_price": True}
    assert parse_usage(cache_creation=[7]) == {"input_tokens": 5}


def test_invalid_rows_are_ignored() -> None:
    lines = [
        b"",
        b"{",
        b"[]",
        b'{"type":"user"}',
        b'{"type":"assistant","message":{"content":[3,{"type":"text"}]}}',
        b"\xff",
    ]
    assert list(KIND.parse_transcript(lines)) == []


def test_session_ids_and_message_markers_have_the_expected_form() -> None:
    assert derive_session_id("a-0123456789ab") == "01234567-89ab-4000-8000-0123456789ab"
    assert encode_message_marker('say "hi"\nnow') == '"prompt":"say \\"hi\\"\\nnow"'
    assert (
        encode_message_marker("now\n") == '"prompt":"now'
        and encode_message_marker("x" * 500) == '"prompt":"' + "x" * 400
    )
    assert encode_message_marker("a\\") == '"prompt":"a'
    assert encode_message_marker("a\tb") == '"prompt":"a' and encode_message_marker("  indented") == "indented"
