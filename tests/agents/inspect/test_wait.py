"""Tests `mngr wait` as a user runs it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.testkit.contract.mngr_program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for


def create_player(mngr: MngrProgram, name: str, steps: Any = ()) -> None:
    mngr("create", name, "player", "--", json.dumps(list(steps)))


def list_states(response: Any) -> list[tuple[str, bool, str]]:
    """Return (name, ok, state) of each result."""
    return [(row["name"], row["ok"], row["state"]) for row in response["results"]]


def test_wait_returns_at_once_when_the_agent_already_waits(mngr: MngrProgram) -> None:
    create_player(mngr, "foo")
    assert mngr("wait", "foo").out == "foo WAITING (end_of_turn)\n"


LATEST = 0.5  # seconds: 0.2 for mngr and the rest for a busy machine


def test_wait_notices_a_state_change_at_once(mngr: MngrProgram) -> None:
    create_player(mngr, "foo", [{"sleep": 1.4}])
    mngr("message", "foo", "-m", "go")
    (outcome,) = Fleet(str(mngr.home)).wait(["foo"])
    delay = time.time() - (mngr.home / "agents" / str(outcome.id) / "status").stat().st_mtime
    assert outcome.extra["state"] == "WAITING" and delay < LATEST


def test_wait_notices_a_state_written_after_its_event(mngr: MngrProgram) -> None:
    status = """printf '{"state":"WAITING"}' > $MNGR_AGENT_DIR/status"""
    mngr(
        "create",
        "foo",
        "--",
        f"sleep 0.6; echo >> $MNGR_AGENT_DIR/events.jsonl; sleep 0.07; {status}; sleep 1000",
    )
    (outcome,) = Fleet(str(mngr.home)).wait(["foo"])
    delay = time.time() - (mngr.home / "agents" / str(outcome.id) / "status").stat().st_mtime
    assert outcome.extra["state"] == "WAITING" and delay < LATEST


def test_all_waits_for_the_last_agent_and_any_for_the_first(mngr: MngrProgram) -> None:
    create_player(mngr, "fast")
    mngr("create", "slow", "--", "sleep", "1000")
    assert list_states(mngr.run_json("wait", "slow", "fast", "--any")) == [("fast", True, "WAITING")]
    with BackgroundProgram(mngr, "wait", "slow", "fast", "--all", "--format", "json") as process:
        mngr("stop", "slow")
        assert list_states(process.wait_for_end().parse_json()) == [
            ("slow", True, "STOPPED"),
            ("fast", True, "WAITING"),
        ]


def test_wait_for_the_end_of_a_command(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep 0.5; exit 3")
    assert list_states(mngr.run_json("wait", "foo", "--state", "done,failed")) == [("foo", True, "FAILED")]


def test_wait_notices_a_stop_by_another_command(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "STOPPED", "--format", "json") as process:
        mngr("stop", "foo")
        assert list_states(process.wait_for_end().parse_json()) == [("foo", True, "STOPPED")]


@pytest.mark.parametrize(("names", "failed"), [(["foo"], 1), (["foo", "bar"], 2)])
def test_wait_fails_after_the_timeout(mngr: MngrProgram, names: list[str], failed: int) -> None:
    for name in names:
        mngr("create", name, "--", "sleep", "1000")
    result = mngr("wait", *names, "--timeout", "0.3s", "--format", "json", code=5)
    assert list_states(result.parse_json()) == [(name, False, "RUNNING") for name in names]
    result = mngr("wait", *names, "--timeout", "0s", "--state", "DONE", code=5)
    assert result.err.count("is still RUNNING after 0s, not DONE") == failed and result.out == ""


def test_wait_fails_at_once_for_a_state_that_cannot_come(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "exit 3")
    mngr("create", "bar", "--", "sleep", "1000")
    mngr("wait", "foo")
    result = mngr("wait", "foo", "--state", "DONE", code=1)
    assert (
        result.err
        == "Error: foo is FAILED (exit 3), so it will not become DONE\nHint: start it again: mngr start foo\n"
    )
    result = mngr("wait", "bar", "foo", "--state", "DONE", "--format", "json", code=4)
    assert list_states(result.parse_json()) == [("bar", False, "RUNNING"), ("foo", False, "FAILED")]
    mngr("wait", "bar", "foo", "--any", "--state", "RUNNING")


def test_wait_fails_when_the_agent_ends_in_another_state(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "read line; exit 3")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "DONE", "--format", "json") as process:
        mngr("message", "foo", "-m", "end")
        result = process.wait_for_end()
        assert (list_states(result.parse_json()), result.code) == ([("foo", False, "FAILED")], 1)


def test_wait_fails_when_the_agent_is_destroyed(mngr: MngrProgram) -> None:
    create_player(mngr, "foo")
    mngr("wait", "foo")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "DONE", "--format", "json") as process:
        wait_for(lambda: str(mngr.home) in list_tail_commands())  # The wait has seen the agent.
        mngr("destroy", "--force", "foo")
        result = process.wait_for_end()
        assert result.parse_json()["results"][0]["error"] == "foo was destroyed during the wait"
        assert result.code == 1


def test_wait_rejects_invalid_states_options_and_names(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    result = mngr("wait", "foo", "--state", "WAITNG", code=2)
    assert result.err == "Error: there is no state 'WAITNG'\nHint: did you mean 'WAITING'?\n"
    assert "cannot be combined" in mngr("wait", "foo", "--any", "--all", code=2).err
    assert "no state" in mngr("wait", "foo", "--state", ",", code=2).err
    assert "there is no agent 'nobody'" in mngr("wait", "nobody", code=1).err
    assert "nobody" in mngr("wait", "foo", "nobody", code=4).err


def test_wait_leaves_no_process_running(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("wait", "foo", "--timeout", "0.3s", code=5)
    wait_for(lambda: str(mngr.home) not in list_tail_commands())  # The shell ends it when mngr has closed the pipe.


def list_tail_commands() -> str:
    """Return the command lines of all processes that follow files."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            pass  # The process has ended.
    return "\n".join(line for line in lines if line.startswith("tail\0"))
