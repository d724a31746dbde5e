"""Tests `mngr events` as a user runs it."""

from __future__ import annotations

import json

from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for


def list_types(mngr: MngrProgram, *words: str) -> list[str]:
    return [row["type"] for row in mngr.run_json("events", *words)["events"]]


def test_the_events_of_one_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "go", "--wait")
    rows = mngr.run_json("events", "foo")["events"]
    assert all(list(row) == ["v", "at", "agent", "name", "type", "source", "data"] for row in rows)
    assert {(row["v"], row["agent"], row["name"]) for row in rows} == {(1, mngr.get_agent("foo")["id"], "foo")}
    assert sorted(row["at"] for row in rows) == [row["at"] for row in rows]
    assert [row["type"] for row in rows if row["source"] == "player"] == [
        "ready", "waiting", "message", "turn_start", "turn_end", "waiting",
    ]  # fmt: skip
    assert [row["type"] for row in rows if row["source"] == "mngr"] == ["created"]


def test_events_of_all_agents_are_in_order(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("create", "bar", "--", "true")
    wait_for(lambda: mngr.get_agent("bar")["state"] == "DONE")
    mngr("message", "foo", "-m", "go", "--wait")
    rows = mngr.run_json("events")["events"]
    assert [r["name"] for r in rows if r["type"] in ("created", "message")] == ["foo", "bar", "foo"]
    lines = mngr("events").out.splitlines()
    assert len(lines) == len(rows)
    assert any("bar" in line and "exited" in line and "code=0" in line for line in lines)


def test_timestamps_in_whole_seconds_do_not_change_the_order(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    file = mngr.home / "agents" / mngr.get_agent("foo")["id"] / "events.jsonl"
    row = json.loads(file.read_text().splitlines()[0])
    row.update(at=row["at"][:17] + "00.000Z", type="late")
    with file.open("a") as events:
        events.write(json.dumps(row) + "\n")
    assert [r["type"] for r in mngr.run_json("events", "foo")["events"]][-1] == "late"


def test_events_shows_only_the_chosen_types_and_times(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "go", "--wait")
    assert list_types(mngr, "foo", "--type", "message", "--type", "created") == ["created", "message"]
    timestamp = next(row["at"] for row in mngr.run_json("events", "foo")["events"] if row["type"] == "message")
    assert list_types(mngr, "foo", "--since", timestamp)[0] == "message"
    assert list_types(mngr, "--since", "1h") == list_types(mngr)
    assert list_types(mngr, "--since", "2100-01-01") == []
    assert list_types(mngr, "--since", timestamp[:10]) == list_types(mngr)
    for invalid in ("2026-99-01", "2026-02-30", "2026-11-15T25:00", "2026-11", "tues-day"):
        assert "not a time" in mngr("events", "--since", invalid, code=2).err
    assert "not a length" in mngr("events", "--since", "yesterday", code=2).err


def test_invalid_events_are_skipped_and_agents_cannot_forge_others(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("create", "bar", "--", "sleep", "1000")
    other = mngr.get_agent("bar")["id"]
    forged = {
        "v": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "agent": other,
        "type": "f\x1b[2J",
        "source": 3,
        "data": 4,
    }
    with (mngr.get_agent_dir("foo") / "events.jsonl").open("ab") as file:
        file.write(b'no\n\xff\n[]\n{"at":3,"type":"a"}\n' + json.dumps(forged).encode() + b'\n{"v":1,"at')
    (row,) = (r for r in mngr.run_json("events", "foo")["events"] if r["type"] != "created")
    assert (row["name"], row["source"], row["data"]) == ("foo", "3", {})
    assert "\x1b" not in mngr("events").out
    assert list_types(mngr, "bar") == ["created"]


def test_events_that_are_nested_too_deeply_are_skipped(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    with (mngr.get_agent_dir("foo") / "events.jsonl").open("ab") as file:
        file.write(b"[" * 200_000 + b'\n{"type":"x","at":' + b"[" * 200_000 + b"\n")
    assert list_types(mngr, "foo") == ["created"]


def test_follow_includes_agents_created_later(mngr: MngrProgram) -> None:
    with BackgroundProgram(
        mngr, "events", "--follow", "--type", "created", "--type", "message", "--format", "{name} {type}"
    ) as process:
        mngr("create", "foo", "player")
        assert process.read_line() == "foo created"
        mngr("message", "foo", "-m", "go")
        assert process.read_line() == "foo message"
        mngr("create", "bar", "--", "sleep", "1000")
        assert process.read_line() == "bar created"


def test_follow_starts_with_past_events_in_order(mngr: MngrProgram) -> None:
    for name in ("foo", "bar"):
        mngr("create", name, "player")
    for name in ("foo", "bar", "foo"):
        mngr("message", name, "-m", "go", "--wait")
    with BackgroundProgram(mngr, "events", "--follow", "--type", "message", "--format", "{name}") as process:
        assert [process.read_line() for _ in range(3)] == ["foo", "bar", "foo"]


def test_follow_of_one_agent_ends_when_it_is_destroyed(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    with BackgroundProgram(mngr, "events", "foo", "--follow", "--format", "jsonl") as process:
        assert json.loads(process.read_line())["type"] == "created"
        mngr("destroy", "--force", "foo")
        assert process.wait_for_end().code == 0


def test_events_errors_and_events_of_an_empty_home(mngr: MngrProgram) -> None:
    assert mngr.run_json("events") == {"v": 1, "events": []}
    assert "there is no agent 'foo'" in mngr("events", "foo", code=1).err
    mngr("create", "foo", "--", "sleep", "1000")
    assert "jsonl" in mngr("events", "--follow", "--format", "json", code=2).err
