"""`mngr wait` from outside."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mngr import Fleet
from mngr.testkit.contract.program import BackgroundProgram
from tests.conftest import MngrProgram, wait_for


def player(mngr: MngrProgram, name: str, steps: Any = ()) -> None:
    mngr("create", name, "player", "--", json.dumps(list(steps)))


def states(ran: Any) -> list[tuple[str, bool, str]]:
    return [(row["name"], row["ok"], row["state"]) for row in ran["results"]]


def test_it_returns_at_once_when_all_is_quiet(mngr: MngrProgram) -> None:
    player(mngr, "foo")
    assert mngr("wait", "foo").out == "foo WAITING (end_of_turn)\n"


LATEST = 0.5  # seconds, of which 0.2 are ours and the rest is for a busy machine


def test_a_state_change_is_seen_at_once(mngr: MngrProgram) -> None:
    player(mngr, "foo", [{"sleep": 1.4}])
    mngr("message", "foo", "-m", "go")
    (outcome,) = Fleet(str(mngr.home)).wait(["foo"])
    late = time.time() - (mngr.home / "agents" / str(outcome.id) / "status").stat().st_mtime
    assert outcome.extra["state"] == "WAITING" and late < LATEST


def test_a_state_that_follows_its_event_is_seen_too(mngr: MngrProgram) -> None:
    status = """printf '{"state":"WAITING"}' > $MNGR_AGENT_DIR/status"""
    mngr(
        "create",
        "foo",
        "--",
        f"sleep 0.6; echo >> $MNGR_AGENT_DIR/events.jsonl; sleep 0.07; {status}; sleep 1000",
    )
    (outcome,) = Fleet(str(mngr.home)).wait(["foo"])
    late = time.time() - (mngr.home / "agents" / str(outcome.id) / "status").stat().st_mtime
    assert outcome.extra["state"] == "WAITING" and late < LATEST


def test_all_wait_for_the_last_and_any_for_the_first(mngr: MngrProgram) -> None:
    player(mngr, "fast")
    mngr("create", "slow", "--", "sleep", "1000")
    assert states(mngr.run_json("wait", "slow", "fast", "--any")) == [("fast", True, "WAITING")]
    with BackgroundProgram(mngr, "wait", "slow", "fast", "--all", "--format", "json") as process:
        mngr("stop", "slow")
        assert states(process.wait_for_end().parse_json()) == [
            ("slow", True, "STOPPED"),
            ("fast", True, "WAITING"),
        ]


def test_the_end_of_a_command_is_waited_for(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep 0.5; exit 3")
    assert states(mngr.run_json("wait", "foo", "--state", "done,failed")) == [("foo", True, "FAILED")]


def test_a_stop_by_somebody_else_is_seen(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "STOPPED", "--format", "json") as process:
        mngr("stop", "foo")
        assert states(process.wait_for_end().parse_json()) == [("foo", True, "STOPPED")]


@pytest.mark.parametrize(("names", "failed"), [(["foo"], 1), (["foo", "bar"], 2)])
def test_time_can_run_out(mngr: MngrProgram, names: list[str], failed: int) -> None:
    for name in names:
        mngr("create", name, "--", "sleep", "1000")
    ran = mngr("wait", *names, "--timeout", "0.3s", "--format", "json", code=5)
    assert states(ran.parse_json()) == [(name, False, "RUNNING") for name in names]
    ran = mngr("wait", *names, "--timeout", "0s", "--state", "DONE", code=5)
    assert ran.err.count("is still RUNNING after 0s, not DONE") == failed and ran.out == ""


def test_what_can_never_come_is_said_at_once(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "exit 3")
    mngr("create", "bar", "--", "sleep", "1000")
    mngr("wait", "foo")
    ran = mngr("wait", "foo", "--state", "DONE", code=1)
    assert ran.err == "Error: foo is FAILED (exit 3) and will not be DONE\nHint: bring it back: mngr start foo\n"
    ran = mngr("wait", "bar", "foo", "--state", "DONE", "--format", "json", code=4)
    assert states(ran.parse_json()) == [("bar", False, "RUNNING"), ("foo", False, "FAILED")]
    mngr("wait", "bar", "foo", "--any", "--state", "RUNNING")


def test_it_ends_when_the_agent_ends_otherwise(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "read line; exit 3")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "DONE", "--format", "json") as process:
        mngr("message", "foo", "-m", "end")
        ran = process.wait_for_end()
        assert (states(ran.parse_json()), ran.code) == ([("foo", False, "FAILED")], 1)


def test_it_ends_when_the_agent_is_destroyed(mngr: MngrProgram) -> None:
    player(mngr, "foo")
    mngr("wait", "foo")
    with BackgroundProgram(mngr, "wait", "foo", "--state", "DONE", "--format", "json") as process:
        wait_for(lambda: str(mngr.home) in tails())  # it has seen the agent
        mngr("destroy", "--force", "foo")
        ran = process.wait_for_end()
        assert ran.parse_json()["results"][0]["error"] == "foo was destroyed while it was waited for"
        assert ran.code == 1


def test_errors(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    ran = mngr("wait", "foo", "--state", "WAITNG", code=2)
    assert ran.err == "Error: there is no state 'WAITNG'\nHint: did you mean 'WAITING'?\n"
    assert "exclude" in mngr("wait", "foo", "--any", "--all", code=2).err
    assert "no state" in mngr("wait", "foo", "--state", ",", code=2).err
    assert "there is no agent 'nobody'" in mngr("wait", "nobody", code=1).err
    assert "nobody" in mngr("wait", "foo", "nobody", code=4).err


def test_nothing_is_left_running(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    mngr("wait", "foo", "--timeout", "0.3s", code=5)
    wait_for(lambda: str(mngr.home) not in tails())  # its shell ends it when mngr has closed the pipe


def tails() -> str:
    """The command lines of all processes that follow files."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            pass  # it has ended
    return "\n".join(line for line in lines if line.startswith("tail\0"))
