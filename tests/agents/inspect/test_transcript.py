"""Tests `mngr transcript` as a user runs it."""

from __future__ import annotations

import json

from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram


def test_transcript_is_readable_without_control_characters(mngr: MngrProgram) -> None:
    steps = [{"reply": "a\x1b[2Jb\n  c"}, {"write": {"path": "x", "content": "y"}}]
    mngr("create", "foo", "player", "--", json.dumps(steps))
    assert mngr("transcript", "foo").out == ""
    mngr("message", "foo", "-m", "go\non", "--wait")
    lines = mngr("transcript", "foo").out.splitlines()
    heads = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert heads == ["user", "assistant", "tool"]
    assert "  go" in lines and "  on" in lines and "  a?[2Jb" in lines and "    c" in lines
    assert '  write {"path": "x", "content": "y"}' in lines and "  done" in lines


def test_every_transcript_row_has_the_same_fields(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"reply": "a"}, {"write": {"path": "x", "content": "y"}}]')
    mngr("message", "foo", "-m", "go", "--wait")
    rows = mngr.run_json("transcript", "foo")["transcript"]
    fields = ["v", "at", "role", "text", "tool", "input", "output", "model", "usage"]
    assert [list(row) for row in rows] == [fields] * 3
    assert [(row["role"], row["text"], row["tool"], row["output"]) for row in rows] == [
        ("user", "go", None, None),
        ("assistant", "a", None, None),
        ("tool", "", "write", "done"),
    ]
    lines = mngr("transcript", "foo", "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows
    assert mngr("transcript", "foo", "--format", "{role}").out.split() == ["user", "assistant", "tool"]


def test_invalid_transcript_rows_are_skipped(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "go", "--wait")
    with (mngr.get_agent_dir("foo") / "transcript.jsonl").open("ab") as file:
        file.write(b'nonsense\n\xff\n[]\n{"role":"root","text":"a"}\n{"role":"user","text":3}\n{"role":"user","te')
    assert [row["text"] for row in mngr.run_json("transcript", "foo")["transcript"]] == ["go", "ok: go"]


def test_follow_ends_when_the_agent_is_destroyed(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "before", "--wait")
    with BackgroundProgram(mngr, "transcript", "foo", "--follow", "--format", "{role} {text}") as process:
        read = process.read_line
        assert (read(), read()) == ("user before", "assistant ok: before")
        mngr("message", "foo", "-m", "after")
        assert (read(), read()) == ("user after", "assistant ok: after")
        mngr("destroy", "--force", "foo")
        assert process.wait_for_end().code == 0


def test_transcript_errors_for_kind_and_format(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    result = mngr("transcript", "foo", code=1)
    assert "foo has no transcript, because agents of kind command" in result.err and "mngr capture foo" in result.err
    assert "jsonl" in mngr("transcript", "foo", "--follow", "--format", "json", code=2).err
