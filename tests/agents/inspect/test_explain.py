"""`mngr explain` from outside."""

from __future__ import annotations

import json
from typing import Any

from tests.conftest import MngrProgram, wait_for

CHAIN = ["record", "stop marker", "exit record", "status", "process"]


def decided(found: dict[str, Any]) -> dict[str, Any]:
    """The one witness whose word is the state."""
    (one,) = (said for said in found["evidence"] if said["decided"])
    return dict(one)


def test_an_agent_that_waits_says_so_itself(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player", "--", '[{"ask": "well?"}]')
    mngr("message", "foo", "-m", "go", "--wait")
    found = mngr.run_json("explain", "foo")
    assert (found["name"], found["state"], found["state_reason"], found["state_source"]) == (
        "foo",
        "WAITING",
        "question",
        "hook",
    )
    assert [said["witness"] for said in found["evidence"]] == CHAIN
    one = decided(found)
    assert one["witness"] == "status" and one["said"] == "the program last said WAITING (question)"
    assert one["at"] == found["state_since"] and 0 <= one["age"] < 60
    assert found["change"] == "a message: mngr message foo -m TEXT"
    out = mngr("explain", "foo").out
    assert out.startswith("foo is WAITING (question) for ")
    assert [line.split()[1] for line in out.splitlines() if line.startswith("→")] == ["status"]


def test_a_command_is_known_by_its_process_and_then_by_its_exit(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "read line; exit 4")
    found = mngr.run_json("explain", "foo")
    assert (found["state"], decided(found)["witness"]) == ("RUNNING", "process")
    assert str(mngr.get_agent("foo")["pid"]) in decided(found)["said"]
    mngr("message", "foo", "-m", "end")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    found = mngr.run_json("explain", "foo")
    assert decided(found)["witness"] == "exit record" and "exit code 4" in decided(found)["said"]
    assert "mngr start foo" in found["change"]


def test_a_stopped_agent_is_known_by_its_marker_though_it_also_ended(mngr: MngrProgram) -> None:
    mngr("create", "foo", "player")
    mngr("message", "foo", "-m", "go", "--wait")
    mngr("stop", "foo")
    found = mngr.run_json("explain", "foo")
    assert (found["state"], decided(found)["witness"]) == ("STOPPED", "stop marker")
    said = {row["witness"]: row["said"] for row in found["evidence"]}
    assert "but it is gone" in said["status"] and "none" in said["process"]


def test_a_lost_agent_is_known_by_what_is_missing(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr.run_tmux("kill-server")
    (mngr.get_agent_dir("foo") / "exit").unlink(missing_ok=True)
    found = mngr.run_json("explain", "foo")
    assert (found["state"], found["state_reason"], decided(found)["witness"]) == ("FAILED", "lost", "process")


def test_a_damaged_record_is_explained_too(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent_id = mngr.get_agent("foo")["id"]
    (mngr.get_agent_dir("foo") / "agent.json").write_text("{")
    found = mngr.run_json("explain", agent_id)
    assert (found["state"], found["name"]) == ("UNKNOWN", agent_id)
    assert decided(found)["said"].startswith("damaged: ")
    assert f"mngr destroy --force {agent_id}" in found["change"]


def test_a_kind_that_is_not_installed_any_more(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    path = mngr.get_agent_dir("foo") / "agent.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "gone"}) + "\n")
    found = mngr.run_json("explain", "foo")
    assert found["state"] == "UNKNOWN" and "there is no agent kind 'gone'" in decided(found)["said"]


def test_what_an_agent_says_is_shown_harmless(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    (mngr.get_agent_dir("foo") / "status").write_text(
        json.dumps({"state": "WAITING", "reason": "\x1b[2Jx", "at": "\x1b"}) + "\n"
    )
    assert "\x1b" not in mngr("explain", "foo").out
