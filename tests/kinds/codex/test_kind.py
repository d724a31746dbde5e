"""The states and transcripts of Codex, from evidence recorded with the real program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mngr.base import time_format
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, Evidence
from mngr.base.untrusted_json import as_object, get_text
from mngr.kinds import limit_resets, state_from_screen
from mngr.kinds.codex.kind import CodexKind
from mngr.kinds.codex.transcript import find_failed_turn, parse_hook_keys
from mngr.kinds.transcript_entry import TokenUsage
from tests.support.paths import ROOT

CORPUS = ROOT / "tests/corpus/codex"
KIND = CodexKind("codex", dict)
MADE = "2026-11-16T04:00:00.000Z"
RECORD = AgentRecord(
    id="a-0123456789ab", name="foo", kind="codex", phase="ready", project="p", source=None, work_dir="/w",
    transfer="none", created_at=MADE,
)  # fmt: skip
IDLE, WORKS, ASKING = "Ready | 01a1e2ac", "⠹ Working | 01a1e2ac", "[ . ] Action Required | 01a1e2ac"
THINKS = "⠹ Thinking | 01a1e2ac"
RUNNING = {"state": "RUNNING", "reason": ""}
ENDED = {"state": "WAITING", "reason": "end_of_turn"}
ASKS = {"state": "WAITING", "reason": "permission"}
ESC = {"type": "turn_aborted", "reason": "interrupted"}
LIMIT = {"type": "task_complete", "error": {"codex_error_info": "rate_limit_exceeded"}}


def timestamp(second: float) -> str:
    return time_format.format_timestamp(time_format.parse_timestamp(MADE) + second)


def build_evidence(
    status: dict[str, Any] | None, end: dict[str, Any] | None, title: str, screen: str | None = None
) -> Evidence:
    """Return the evidence of a running agent; in both dicts `s` is the time in seconds since its creation."""
    hook_status = None if status is None else {**status, "at": timestamp(status["s"])}
    program_status: dict[str, object] | None = None
    if end is not None:
        program_status = {"timestamp": timestamp(end["s"]), "payload": end}
    pane = {"session": "foo", "pane": "%1", "pid": "7", "dead": "0", "activity": "1", "attached": "0"}
    now = time_format.parse_timestamp(MADE) + 100
    return Evidence(
        now=now, pane={**pane, "title": title}, hook_status=hook_status, program_status=program_status, screen=screen
    )


@pytest.mark.parametrize(
    ("status", "end", "title", "expected"),
    [
        (None, None, "host", ("STARTING", None, "process")),
        (None, None, "Ready", ("STARTING", None, "process")),  # its first screen appears before it accepts messages
        ({**ENDED, "s": 5}, None, IDLE, ("WAITING", "end_of_turn", "hook")),
        ({**RUNNING, "s": 5}, None, IDLE, ("RUNNING", None, "hook")),  # the title comes a moment later
        ({**RUNNING, "s": 5}, None, WORKS, ("RUNNING", None, "hook")),
        ({**RUNNING, "s": 5}, {**ESC, "s": 6}, IDLE, ("WAITING", "end_of_turn", "transcript")),
        ({**RUNNING, "s": 7}, {**ESC, "s": 6}, WORKS, ("RUNNING", None, "hook")),  # a message came after it
        ({**RUNNING, "s": 5}, {**LIMIT, "s": 6}, IDLE, ("PARKED", "rate_limit", "transcript")),
        ({**ENDED, "s": 7}, {**LIMIT, "s": 6}, IDLE, ("WAITING", "end_of_turn", "hook")),
        ({**ASKS, "s": 5}, None, ASKING, ("WAITING", "permission", "hook")),
        ({**ASKS, "s": 5}, None, WORKS, ("RUNNING", None, "screen")),  # allowed, and the command runs
        ({**ASKS, "s": 5}, None, IDLE, ("WAITING", "end_of_turn", "screen")),  # a sub-agent asked
        ({**ASKS, "s": 5}, {**ESC, "s": 6}, IDLE, ("WAITING", "end_of_turn", "transcript")),  # refused
        ({**RUNNING, "s": 5}, None, ASKING, ("WAITING", "question", "screen")),
    ],
)  # fmt: skip
def test_the_newest_evidence_decides_the_state(
    status: dict[str, Any] | None, end: dict[str, Any] | None, title: str, expected: tuple[Any, ...]
) -> None:
    state = KIND.state(RECORD, build_evidence(status, end, title))
    assert (state.state, state.reason, state.source) == expected


@pytest.mark.parametrize(("screen", "reason"), [("idle", None), ("retrying-1", "retrying"), ("retrying-2", "retrying")])
def test_retries_are_visible_only_on_the_screen(screen: str, reason: str | None) -> None:
    text = (CORPUS / f"{screen}.txt").read_text()
    assert state_from_screen.find_state("codex", text) == (reason and ("RUNNING", reason))
    evidence = build_evidence({**RUNNING, "s": 5}, None, THINKS, text)
    assert KIND.state(RECORD, evidence).reason == reason
    state = KIND.state(RECORD, evidence.replace(screen=None))
    assert KIND.is_screen_needed(evidence, state)
    assert not KIND.is_screen_needed(build_evidence({**RUNNING, "s": 5}, None, WORKS), state)


def test_the_end_of_a_turn_is_read_from_the_record() -> None:
    ends = [find_failed_turn(json.loads(line)) for line in (CORPUS / "ends.jsonl").read_text().splitlines()]
    assert [(end.reason, end.until) for end in ends if end] == [
        ("rate_limit", None),  # 429
        ("login", None),  # 401
        ("login", None),  # 403
        (None, None),  # 500
        ("rate_limit", None),  # 529
        ("rate_limit", None),  # 503
        (None, None),  # 400
        ("quota", None),  # 402
        (None, None),  # 404
        ("quota", "2026-11-16T06:19:00.000Z"),
        ("quota", "2026-11-27T20:06:00.000Z"),
        (None, None),  # Esc
        ("login", None),  # 401 of 0.150.0, which mentions it only in the message
    ]


@pytest.mark.parametrize(
    "row",
    [
        None,
        {},
        {"timestamp": "\x1b[2J", "payload": {}},
        {"timestamp": MADE, "payload": ["error"]},
        {"timestamp": MADE, "payload": {"error": {"codex_error_info": [1]}}},
        {"timestamp": MADE, "payload": {"error": {"codex_error_info": {"x": {"http_status_code": [429]}}}}},
        {"timestamp": MADE, "zone": 7, "payload": {"error": {"codex_error_info": "usage_limit_exceeded", "message": [1]}}},
    ],
)  # fmt: skip
def test_hostile_rows_do_no_harm(row: dict[str, Any] | None) -> None:
    end = find_failed_turn(row)
    assert end is None or end.until is None
    KIND.state(RECORD, build_evidence({**RUNNING, "s": 5}, None, IDLE).replace(program_status=row))


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("You’ve hit your usage limit. Try again at 6:19 AM.", "+0200", "2026-11-16T04:19:00.000Z"),
        ("You’ve hit your usage limit. Try again at 6:19 AM.", "+0130", "2026-11-16T04:49:00.000Z"),
        ("hit your usage limit, or try again at 3:00 AM.", "+0000", "2026-11-17T03:00:00.000Z"),
        ("hit your usage limit. Try again at Jan 2nd, 2027 12:05 AM.", "-0500", "2027-01-02T05:05:00.000Z"),
        ("hit your usage limit. Try again at 6:19 AM.", "+ever", None),
    ],
)
def test_the_end_of_a_quota_is_parsed_in_the_time_zone_of_the_host(text: str, zone: str, expected: str | None) -> None:
    match = limit_resets.find_reset(text)
    assert match is not None and limit_resets.parse_reset(match, timestamp(60), 0.0, zone) == expected


def test_a_conversation_is_converted_to_the_schema() -> None:
    rows = list(KIND.parse_transcript((CORPUS / "conversation.jsonl").read_bytes().splitlines()))
    assert [(row.role, row.tool or row.text[-7:]) for row in rows] == [
        ("user", "ake> go"),
        ("assistant", "on it"),
        ("tool", "exec_command"),
        ("tool", "apply_patch"),
        ("assistant", "all done"[-7:]),
        ("user", "stop me"),
        ("assistant", "wait"),
        ("tool", "exec_command"),
        ("tool", "exec_command"),
    ]
    assert rows[2].input == {"cmd": "echo hi > out.txt"} and "exited with code 0" in str(rows[2].output)
    assert get_text(as_object(rows[3].input), "input").startswith("*** Begin Patch") and "A new.txt" in str(
        rows[3].output
    )
    counts = TokenUsage(input_tokens=100, output_tokens=20, cache_read_tokens=900, cache_write_tokens=0)
    assert [row.usage for row in rows[1:3]] == [None, counts]  # once for the whole response
    assert all(row.model == "gpt-5.5" for row in rows if row.role != "user")
    assert all(row.at for row in rows)


def test_a_response_is_counted_once_in_every_record_format() -> None:
    lines = (CORPUS / "conversation.jsonl").read_bytes().splitlines()
    expected = [row.usage for row in KIND.parse_transcript(lines)]
    older = [line for line in lines if b'"token_usage_record"' not in line]
    assert [row.usage for row in KIND.parse_transcript(older)] == expected
    twice = [line for line in older for _ in range(2 if b'"token_count"' in line else 1)]
    assert [row.usage for row in KIND.parse_transcript(twice)] == expected
    early = list(older)  # here a quick tool ended before the record had the usage of its call
    cost = next(i for i, line in enumerate(early) if b'"token_count"' in line)
    done = next(i for i, line in enumerate(early) if b'"function_call_output"' in line)
    early.insert(done, early.pop(cost))
    assert done < cost and [row.usage for row in KIND.parse_transcript(early)] == expected


def test_the_usage_of_a_sub_agent_is_reported() -> None:
    lines = (CORPUS / "conversation.jsonl").read_bytes().splitlines()
    turn = {"turn_id": "t2", "root_turn_id": "t1"}
    usage = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    subagent_rows: list[dict[str, Any]] = [
        {"type": "turn_context", "payload": {**turn, "model": "small"}},
        {
            "type": "token_usage_record",
            "payload": {**turn, "thread_id": "b", "session_id": "a", "usage": usage},
        },
    ]
    subagent_lines = [json.dumps({"timestamp": MADE, **row}).encode() for row in subagent_rows]
    half = len(lines) // 2  # while mngr follows the files, these rows come in the middle
    rows = list(KIND.parse_transcript([*lines[:half], *subagent_lines, *lines[half:]]))
    others = [row for row in rows if row.tool != "sub-agent"]
    assert others == list(KIND.parse_transcript(lines))
    (row,) = [row for row in rows if row not in others]
    assert (row.model, row.input) == ("small", {"thread": "b"})
    assert row.usage == TokenUsage(input_tokens=5, output_tokens=2, cache_read_tokens=4, cache_write_tokens=0)


def test_usage_with_a_different_price_is_marked() -> None:
    lines = (CORPUS / "conversation.jsonl").read_bytes().splitlines()

    def prices(*settings: object) -> set[object]:
        payloads = [{"type": "thread_settings_applied", "thread_settings": item} for item in settings]
        rows = [{"timestamp": MADE, "type": "event_msg", "payload": item} for item in payloads]
        parsed = KIND.parse_transcript([*(json.dumps(row).encode() for row in rows), *lines])
        return {row.usage.other_price for row in parsed if row.usage}

    fast, default = {"service_tier": "priority"}, {"service_tier": "default"}
    assert prices(fast) == prices(default, fast) == {True}
    assert prices(fast, default) == prices({"service_tier": None}) == prices(7) == {False}


def test_a_call_without_a_result_is_still_a_row() -> None:
    lines = (CORPUS / "conversation.jsonl").read_bytes().splitlines()
    cut = next(i for i, line in enumerate(lines) if b'"function_call"' in line)
    rows = list(KIND.parse_transcript([*lines[: cut + 1], b'{"half', b"[]", b"null", b'{"payload":7}']))
    assert [row.role for row in rows] == ["user", "assistant", "tool"]
    assert rows[-1].output is None


def test_a_message_that_codex_would_misread_is_changed_or_refused() -> None:
    assert KIND.delivery(RECORD, "see @docs").text == "see @docs "  # after a space no list of files opens
    assert KIND.delivery(RECORD, "the picture x.png").text
    with pytest.raises(MngrError, match="as the path of an image"):
        KIND.delivery(RECORD, "docs/x.PNG\n")


def test_only_hooks_from_outside_mngr_are_listed() -> None:
    hooks = [
        {"key": "/w/codex/hooks.json:stop:0:0", "source": "user"},
        {"key": "/r:stop:0:0", "source": "project"},
    ]
    answer = {"id": 2, "result": {"data": [{"cwd": "/w", "hooks": hooks}]}}
    assert parse_hook_keys(json.dumps(answer).encode()) == ["/r:stop:0:0"]
    for invalid in (
        b"",
        b"{}",
        b'{"id":2,"error":{"code":-32601}}',
        b'{"result":{"data":[{"hooks":[{}]}]}}',
        b"[1]",
    ):
        assert parse_hook_keys(invalid) is None


def test_a_sandbox_allows_only_the_addresses_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert KIND.list_model_addresses({}) == ("api.openai.com:443", "chatgpt.com:443")
    assert KIND.list_model_addresses({"OPENAI_BASE_URL": "http://m.example/v1"}) == ("m.example:80",)
    providers = '[model_providers.a]\nbase_url = "https://a.example/v1"\nenv_key = "A_KEY"\n'
    (tmp_path / "config.toml").write_text(f'model_provider = "a"\n{providers}')
    assert KIND.list_model_addresses({}) == ("a.example:443",)
    monkeypatch.setenv("A_KEY", "hush")
    assert KIND.get_user_variables()["A_KEY"] == "hush"
    (tmp_path / "config.toml").write_text("no [ toml")
    with pytest.raises(MngrError, match=r"cannot read .*config\.toml"):
        KIND.get_user_variables()
