"""Tests the entries of a conversation and their JSON form."""

from __future__ import annotations

import json

from mngr.kinds.transcript_entry import TokenUsage, TranscriptEntry, parse_entries


def test_the_json_form_has_all_fields_and_only_the_reported_usage() -> None:
    usage = TokenUsage(input_tokens=0, cost_usd=0.5, other_price=True)
    entry = TranscriptEntry(at="2026-11-16T04:00:00.000Z", role="assistant", text="hello", model="m", usage=usage)
    assert entry.to_dict() == {
        "v": 1, "at": "2026-11-16T04:00:00.000Z", "role": "assistant", "text": "hello", "tool": None, "input": None,
        "output": None, "model": "m", "usage": {"input_tokens": 0, "cost_usd": 0.5, "other_price": True},
    }  # fmt: skip


def test_an_entry_is_read_back_from_its_json_form() -> None:
    usage = TokenUsage(input_tokens=7, output_tokens=0, cache_write_tokens=3, cache_write_1h_tokens=2, calls=2)
    entry = TranscriptEntry(at="now", role="tool", tool="bash", input={"command": "ls"}, output="a", usage=usage)
    assert list(parse_entries([json.dumps(entry.to_dict()).encode()])) == [entry]


def test_rows_in_another_schema_are_skipped_and_values_of_another_type_are_missing() -> None:
    lines = [
        b"",
        b"{",
        b'{"role": "system", "text": "x"}',
        b'{"role": "user"}',
        b'{"role": "user", "text": 3}',
        b'{"role": "user", "text": "x", "at": 3, "model": [], "usage": {"input_tokens": true, "calls": 1.5}}',
        b'{"role": "user", "text": "y", "usage": 3}',
    ]
    assert list(parse_entries(lines)) == [
        TranscriptEntry(role="user", text="x", usage=TokenUsage()),
        TranscriptEntry(role="user", text="y"),
    ]
