"""Tests `mngr usage` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import MngrProgram

OPUS = "claude-opus-5-5"


def add_transcript_row(mngr: MngrProgram, name: str, timestamp: str, model: str, **usage: Any) -> None:
    """Add a row to an agent's conversation, as its program would write it."""
    row = {"v": 1, "at": timestamp, "role": "assistant", "text": "x", "model": model, "usage": usage}
    path = mngr.home / "agents" / mngr.get_agent(name)["id"] / "transcript.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def test_usage_adds_up_tokens_and_cost(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--label", "run=r1")
    mngr("create", "bar", "player")
    mngr("create", "plain", "--", "sleep", "1000")
    add_transcript_row(mngr, "foo", "2999-01-01T00:00:00.000Z", OPUS, input_tokens=1_000_000, output_tokens=100_000)
    add_transcript_row(mngr, "foo", "2999-01-02T00:00:00.000Z", "nobody-knows", input_tokens=5, cost_usd=0.5)
    add_transcript_row(mngr, "bar", "2999-01-02T00:00:00.000Z", "nobody-knows", input_tokens=7, output_tokens=1)
    rows = {row["group"]: row for row in mngr.run_json("usage")["usage"]}
    assert rows["foo"] | {"group": ""} == {
        "group": "",
        "input_tokens": 1_000_005,
        "output_tokens": 100_000,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost_usd": 6.5,
    }
    assert (rows["bar"]["input_tokens"], rows["bar"]["cost_usd"]) == (7, None)
    assert "plain" not in rows
    by_day = {row["group"]: row["cost_usd"] for row in mngr.run_json("usage", "--by", "day")["usage"]}
    assert by_day == {"2999-01-01": 6.0, "2999-01-02": None}
    by_run = {row["group"]: row["cost_usd"] for row in mngr.run_json("usage", "--by", "label.run")["usage"]}
    assert by_run == {"r1": 6.5, "-": None}
    assert "unknown" in mngr("usage", "bar").out and "$6.5000" in mngr("usage", "foo").out
    listed = mngr.run_json("list", "--fields", "name,usage", "--sort", "name")["agents"]
    assert listed[1] == {
        "name": "foo",
        "usage": {"input_tokens": 1_000_005, "output_tokens": 100_000, "cost_usd": 6.5},
    }
    assert listed[2]["usage"] is None


def test_usage_uses_the_users_prices(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", "player")
    add_transcript_row(mngr, "foo", "2999-01-01T00:00:00.000Z", "mine-2", input_tokens=1_000_000)
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"mine-*": {"input": 3}}}')
    assert mngr.run_json("-S", f"usage.prices={prices}", "usage")["usage"][0]["cost_usd"] == 3.0
    prices.write_text('{"models": 3}')
    assert "is not a valid price file" in mngr("-S", f"usage.prices={prices}", "usage", code=1).err


def test_usage_of_a_clone_excludes_the_original_conversation(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    add_transcript_row(mngr, "foo", mngr.get_agent("foo")["created_at"], OPUS, input_tokens=1_000_000)
    mngr("clone", "foo", "bar")
    path = mngr.home / "agents" / mngr.get_agent("bar")["id"] / "agent.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"created_at": "2999-01-01T00:00:00.000Z"}))
    rows = {row["group"]: row["input_tokens"] for row in mngr.run_json("usage")["usage"]}
    assert rows == {"foo": 1_000_000, "bar": 0}


def test_usage_and_transcript_of_destroyed_agents(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "-m", "hello")
    add_transcript_row(mngr, "foo", "2999-01-01T00:00:00.000Z", OPUS, input_tokens=1_000_000)
    mngr("wait", "foo")
    transcript = mngr.run_json("transcript", "foo")
    mngr("destroy", "--force", "foo")
    assert mngr.run_json("transcript", "foo") == transcript
    assert mngr.run_json("usage")["usage"] == []
    assert mngr.run_json("usage", "--destroyed")["usage"][0]["cost_usd"] == 4.0
    assert mngr.run_json("usage", "foo")["usage"][0]["cost_usd"] == 4.0


def test_usage_rejects_an_unknown_grouping(mngr: MngrProgram) -> None:
    assert "mngr cannot group usage by 'week'" in mngr("usage", "--by", "week", code=2).err
    assert "no agent has used a model" in mngr("usage").err
