"""Tests `mngr limit`: the watcher stops idle or old agents, runs only while needed, and is reported when missing."""

from __future__ import annotations

import os
import signal

import pytest

from tests.conftest import MngrProgram, wait_for

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")


def find_watcher_pid(mngr: MngrProgram) -> str:
    return mngr.run_tmux("list-panes", "-s", "-t", "=_watcher", "-F", "#{pane_pid}").strip()


def test_an_idle_agent_is_stopped_and_a_busy_one_is_not(mngr: MngrProgram) -> None:
    mngr("create", "idle", *RUN)
    mngr("create", "busy", "--", "while :; do echo tick; sleep 0.2; done")
    assert mngr("limit", "idle", "busy", "--idle", "2s").out == "idle: idle 2s\nbusy: idle 2s\n"
    assert find_watcher_pid(mngr)
    agent = wait_for(lambda: (a := mngr.get_agent("idle"))["state"] == "STOPPED" and a)
    assert agent["state_reason"] == "idle" and mngr.get_agent("busy")["state"] == "RUNNING"
    row = wait_for(
        lambda: [r for r in (mngr.get_agent_dir("idle") / "events.jsonl").read_text().splitlines() if '"stopped"' in r]
    )[0]
    assert '"watcher"' in row and '"reason":"idle"' in row
    mngr("start", "idle")
    assert mngr.get_agent("idle")["state"] == "RUNNING"
    wait_for(lambda: mngr.get_agent("idle")["state"] == "STOPPED")


def test_activity_option_decides_what_counts_as_activity(mngr: MngrProgram) -> None:
    spin = "while :; do :; done"
    mngr("create", "silent", "--idle-timeout", "2s", "--activity", "output,process", "--", spin)
    mngr("create", "asleep", "--idle-timeout", "2s", "--activity", "process", *RUN)
    mngr(
        "create",
        "noisy",
        "--idle-timeout",
        "2s",
        "--activity",
        "input",
        "--",
        "yes | while read -r x; do echo $x; sleep 1; done",
    )
    mngr("create", "asked", "--", "cat")
    assert mngr("limit", "asked", "--idle", "4s", "--activity", "input").out == "asked: idle 4s, activity is input\n"

    def states() -> dict[str, str]:
        return {agent["name"]: agent["state"] for agent in mngr.list_agents()}

    def others_ended() -> bool:
        mngr("message", "asked", "-m", "still here")
        return states()["asleep"] == states()["noisy"] == "STOPPED"

    wait_for(others_ended)
    assert states() == {"silent": "RUNNING", "asleep": "STOPPED", "noisy": "STOPPED", "asked": "RUNNING"}
    assert "--activity cannot be 'mood'" in mngr("limit", "asked", "--activity", "mood", code=2).err
    assert "--activity cannot be 'mood'" in mngr("create", "--activity", "input,mood", *RUN, code=2).err


def test_lifetime_stops_a_busy_agent(mngr: MngrProgram) -> None:
    mngr("create", "busy", "--", "while :; do echo tick; sleep 0.2; done")
    mngr("limit", "busy", "--lifetime", "1s")
    agent = wait_for(lambda: (a := mngr.get_agent("busy"))["state"] == "STOPPED" and a)
    assert agent["state_reason"] == "lifetime"


def test_the_watcher_is_hidden_and_ends_without_limits(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--idle-timeout", "1h", *RUN)
    mngr("create", "other", *RUN)
    assert find_watcher_pid(mngr)
    assert sorted(a["name"] for a in mngr.list_agents()) == ["foo", "other"]
    assert mngr("limit", "foo", "--idle", "none").out == "foo: no limits\n"
    wait_for(lambda: not find_watcher_pid(mngr))
    assert mngr("list").err == "" and {a["state"] for a in mngr.list_agents()} == {"RUNNING"}


def test_list_reports_a_missing_watcher_and_limit_restarts_it(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--idle-timeout", "1h", *RUN)
    assert mngr("list").err == ""
    os.kill(int(find_watcher_pid(mngr)), signal.SIGKILL)
    wait_for(lambda: not find_watcher_pid(mngr))
    assert "mngr is not watching the limits of its agents" in mngr("list").err
    mngr("limit", "foo", "--lifetime", "2d")
    assert find_watcher_pid(mngr) and mngr("list").err == ""


def test_files_that_an_agent_writes_do_not_end_the_watcher(mngr: MngrProgram) -> None:
    mngr("create", "evil", "--idle-timeout", "1h", *RUN)
    mngr("create", "foo", *RUN)
    (mngr.get_agent_dir("evil") / "limit").write_text("1 a[$(touch${IFS}pwned)] x;y\n")
    mngr("limit", "foo", "--idle", "1s")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "STOPPED")
    assert mngr.get_agent("evil")["state"] == "RUNNING" and find_watcher_pid(mngr)
    assert not list(mngr.home.rglob("pwned"))


def test_limit_shows_changes_and_validates_limits(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    assert mngr("limit", "foo").out == "foo: no limits\n"
    assert mngr("limit", "foo", "--idle", "1h30m", "--lifetime", "2d").out == "foo: idle 1h30m, lifetime 2d\n"
    assert mngr("limit", "foo", "--idle", "none").out == "foo: lifetime 2d\n"
    (row,) = mngr.run_json("limit", "foo")["results"]
    assert (row["idle_timeout"], row["lifetime"]) == (None, 172800.0)
    for text in ("0", "soon", "-5", "0.5s"):
        assert "Hint:" in mngr("limit", "foo", "--idle", text, code=2).err
    assert mngr.run_json("limit", "foo", "nobody", "--idle", "1h", code=4)["results"][1]["ok"] is False
    mngr("create", "bar", "--idle-timeout", "0", *RUN, code=2)
