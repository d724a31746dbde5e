"""Tests `mngr explain` as a user runs it."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import MngrProgram, wait_for

CHAIN = ["record", "stop marker", "exit record", "status", "process"]


def get_deciding_row(explanation: dict[str, Any]) -> dict[str, Any]:
    """Return the one piece of evidence that decided the state."""
    (row,) = (candidate for candidate in explanation["evidence"] if candidate["is_decisive"])
    return dict(row)


def test_a_waiting_agent_is_explained_by_its_status(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "well?"}]')
    mngr("message", "foo", "-m", "go", "--wait")
    explanation = mngr.run_json("explain", "foo")
    assert (explanation["name"], explanation["state"], explanation["state_reason"], explanation["state_source"]) == (
        "foo",
        "WAITING",
        "question",
        "hook",
    )
    assert [evidence_row["source"] for evidence_row in explanation["evidence"]] == CHAIN
    row = get_deciding_row(explanation)
    assert row["source"] == "status" and row["text"] == "the program last reported WAITING (question)"
    assert row["at"] == explanation["state_since"] and 0 <= row["age"] < 60
    assert explanation["next_step"] == "send it a message: mngr message foo -m TEXT"
    out = mngr("explain", "foo").out
    assert out.startswith("foo has been WAITING (question) for ")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("→")] == ["status"]


def test_a_command_is_explained_by_its_process_and_then_by_its_exit(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "read line; exit 4")
    explanation = mngr.run_json("explain", "foo")
    assert (explanation["state"], get_deciding_row(explanation)["source"]) == ("RUNNING", "process")
    assert str(mngr.get_agent("foo")["pid"]) in get_deciding_row(explanation)["text"]
    mngr("message", "foo", "-m", "end")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    explanation = mngr.run_json("explain", "foo")
    assert (
        get_deciding_row(explanation)["source"] == "exit record"
        and "exit code 4" in get_deciding_row(explanation)["text"]
    )
    assert "mngr start foo" in explanation["next_step"]


def test_a_stopped_agent_is_explained_by_its_stop_marker(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "go", "--wait")
    mngr("stop", "foo")
    explanation = mngr.run_json("explain", "foo")
    assert (explanation["state"], get_deciding_row(explanation)["source"]) == ("STOPPED", "stop marker")
    descriptions = {row["source"]: row["text"] for row in explanation["evidence"]}
    assert "but it is no longer running" in descriptions["status"] and "none" in descriptions["process"]


def test_a_lost_agent_is_explained_by_its_missing_process(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr.run_tmux("kill-server")
    (mngr.get_agent_dir("foo") / "exit").unlink(missing_ok=True)
    explanation = mngr.run_json("explain", "foo")
    assert (explanation["state"], explanation["state_reason"], get_deciding_row(explanation)["source"]) == (
        "FAILED",
        "lost",
        "process",
    )


def test_a_damaged_record_is_explained(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent_id = mngr.get_agent("foo")["id"]
    (mngr.get_agent_dir("foo") / "agent.json").write_text("{")
    explanation = mngr.run_json("explain", agent_id)
    assert (explanation["state"], explanation["name"]) == ("UNKNOWN", agent_id)
    assert get_deciding_row(explanation)["text"].startswith("damaged: ")
    assert f"mngr destroy --force {agent_id}" in explanation["next_step"]


def test_a_kind_that_is_no_longer_installed_is_explained(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    path = mngr.get_agent_dir("foo") / "agent.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "gone"}) + "\n")
    explanation = mngr.run_json("explain", "foo")
    assert (
        explanation["state"] == "UNKNOWN" and "there is no agent kind 'gone'" in get_deciding_row(explanation)["text"]
    )


def test_control_characters_in_a_status_are_not_printed(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    (mngr.get_agent_dir("foo") / "status").write_text(
        json.dumps({"state": "WAITING", "reason": "\x1b[2Jx", "at": "\x1b"}) + "\n"
    )
    assert "\x1b" not in mngr("explain", "foo").out


def test_a_reason_with_several_lines_does_not_look_like_a_next_step(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    (mngr.get_agent_dir("foo") / "status").write_text(
        json.dumps({"state": "WAITING", "reason": "question)\n\nNext step: run forged"}) + "\n"
    )
    lines = mngr("explain", "foo").out.splitlines()
    assert "run forged" in lines[0]
    assert [line for line in lines if line.startswith("Next step: run forged")] == []
