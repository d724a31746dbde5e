"""`mngr usage` from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import MngrProgram

OPUS = "claude-opus-5-5"


def say(mngr: MngrProgram, name: str, at: str, model: str, **usage: Any) -> None:
    """A row of a conversation, as a program writes it."""
    row = {"v": 1, "at": at, "role": "assistant", "text": "x", "model": model, "usage": usage}
    path = mngr.home / "agents" / mngr.get_agent(name)["id"] / "transcript.jsonl"
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def test_tokens_and_cost_are_added_up(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--label", "run=r1")
    mngr("create", "bar", "player")
    mngr("create", "plain", "--", "sleep", "1000")
    say(mngr, "foo", "2999-01-01T00:00:00.000Z", OPUS, input_tokens=1_000_000, output_tokens=100_000)
    say(mngr, "foo", "2999-01-02T00:00:00.000Z", "nobody-knows", input_tokens=5, cost_usd=0.5)
    say(mngr, "bar", "2999-01-02T00:00:00.000Z", "nobody-knows", input_tokens=7, output_tokens=1)
    found = {row["group"]: row for row in mngr.run_json("usage")["usage"]}
    assert found["foo"] | {"group": ""} == {
        "group": "",
        "input_tokens": 1_000_005,
        "output_tokens": 100_000,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "cost_usd": 6.5,
    }
    assert (found["bar"]["input_tokens"], found["bar"]["cost_usd"]) == (7, None)
    assert "plain" not in found
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


def test_prices_of_ones_own(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", "player")
    say(mngr, "foo", "2999-01-01T00:00:00.000Z", "mine-2", input_tokens=1_000_000)
    prices = tmp_path / "prices.json"
    prices.write_text('{"models": {"mine-*": {"input": 3}}}')
    assert mngr.run_json("-S", f"usage.prices={prices}", "usage")["usage"][0]["cost_usd"] == 3.0
    prices.write_text('{"models": 3}')
    assert "is no table of prices" in mngr("-S", f"usage.prices={prices}", "usage", code=1).err


def test_what_was_said_before_a_clone_is_not_paid_twice(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    say(mngr, "foo", mngr.get_agent("foo")["created_at"], OPUS, input_tokens=1_000_000)
    mngr("clone", "foo", "bar")
    path = mngr.home / "agents" / mngr.get_agent("bar")["id"] / "agent.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"created_at": "2999-01-01T00:00:00.000Z"}))
    found = {row["group"]: row["input_tokens"] for row in mngr.run_json("usage")["usage"]}
    assert found == {"foo": 1_000_000, "bar": 0}


def test_of_destroyed_agents(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "-m", "hello")
    say(mngr, "foo", "2999-01-01T00:00:00.000Z", OPUS, input_tokens=1_000_000)
    mngr("wait", "foo")
    said = mngr.run_json("transcript", "foo")
    mngr("destroy", "--force", "foo")
    assert mngr.run_json("transcript", "foo") == said
    assert mngr.run_json("usage")["usage"] == []
    assert mngr.run_json("usage", "--destroyed")["usage"][0]["cost_usd"] == 4.0
    assert mngr.run_json("usage", "foo")["usage"][0]["cost_usd"] == 4.0


def test_it_is_told_by_something_there_is(mngr: MngrProgram) -> None:
    assert "cannot be told by 'week'" in mngr("usage", "--by", "week", code=2).err
    assert "no agent has used a model" in mngr("usage").err
