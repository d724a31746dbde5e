"""The transcripts of pi, from conversations recorded with the real program."""

from __future__ import annotations

from pathlib import Path

import pytest

from mngr.base.errors import NotFound, UsageError
from mngr.base.model import AgentRecord
from mngr.kinds.pi.kind import PiKind
from mngr.kinds.protocol import KindOptions
from tests.support.paths import ROOT

CORPUS = ROOT / "tests/corpus/pi"
KIND = PiKind("pi", dict)
RECORD = AgentRecord(
    id="a-0123456789ab", name="foo", kind="pi", phase="ready", project="p", source=None, work_dir="/w",
    transfer="none", created_at="2026-11-16T04:00:00.000Z",
)  # fmt: skip


def test_a_conversation_is_converted_to_the_schema() -> None:
    rows = list(KIND.parse_transcript((CORPUS / "conversation.jsonl").read_bytes().split(b"\n")))
    assert [row.role for row in rows] == ["user", "assistant", "tool", "assistant", "user"]
    assert [rows[1].text, rows[3].text] == ["on it", "all done"]
    assert (rows[2].tool, rows[2].input, rows[2].output) == ("bash", {"command": "ls"}, "a\n")
    usage = rows[3].usage
    assert usage is not None and usage.input_tokens == 1472 and usage.cost_usd is not None and usage.cost_usd > 0
    assert all(row.at and row.at.startswith("2026-11-16T05:32:27.") for row in rows)


def test_an_error_is_a_part_of_the_conversation() -> None:
    row = b'{"type":"message","message":{"role":"assistant","content":[],"stopReason":"error","errorMessage":"429"}}'
    assert [parsed.text for parsed in KIND.parse_transcript([row])] == ["429"]


def test_invalid_rows_are_ignored() -> None:
    lines = [
        b"",
        b"{",
        b"[]",
        b'{"type":"message"}',
        b'{"type":"message","message":{"role":"assistant","content":[3]}}',
    ]
    assert list(KIND.parse_transcript([*lines, b"\xff", b'{"type":"message","message":{"role":"toolResult"}}'])) == []


def test_messages_are_delivered_through_the_inbox() -> None:
    delivery = KIND.delivery(RECORD, "/help")
    assert (delivery.proof, delivery.inbox_dir, delivery.command_prefixes) == ("api", "inbox", "")


def test_yolo_is_refused_because_pi_never_asks() -> None:
    with pytest.raises(UsageError, match="has no effect"):
        KIND.check_arguments([], KindOptions(yolo=True))


def test_a_conversation_of_the_user_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    sessions = tmp_path / "sessions/--w--"
    sessions.mkdir(parents=True)
    (sessions / "2026-11-16T05-32-26-642Z_01a1e2d7.jsonl").write_text("")
    assert KIND.get_user_conversation("01a1e2d7").endswith("_01a1e2d7.jsonl")
    with pytest.raises(NotFound) as caught:
        KIND.get_user_conversation("1e2d7")
    assert caught.value.hint == "use the id of a conversation, for example: 01a1e2d7"
