"""Tests `mngr stop`: it ends the processes and keeps everything else."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from tests.conftest import MngrProgram, wait_for

RUN = ("--", "sleep", "1000")


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_stop_keeps_everything_but_the_process(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "echo last words; echo x >file.txt; exec sleep 1000")
    wait_for(lambda: "last words" in mngr.run_tmux("capture-pane", "-p", "-t", "=foo:"))
    before = mngr.get_agent("foo")
    assert mngr("stop", "foo").out == "stopped foo\n"
    after = mngr.get_agent("foo")
    assert (after["state"], after["state_source"], after["pid"], after["exit_code"]) == (
        "STOPPED",
        "record",
        None,
        None,
    )
    assert {k: after[k] for k in ("id", "name", "work_dir", "branch", "base", "labels")} == {
        k: before[k] for k in ("id", "name", "work_dir", "branch", "base", "labels")
    }
    assert is_gone(before["pid"]) and mngr.run_tmux("list-sessions") == ""
    assert (mngr.get_work_dir("foo") / "file.txt").exists()
    assert "last words" in (mngr.get_agent_dir("foo") / "screen").read_text()


def test_stop_changes_nothing_for_a_stopped_or_ended_agent(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "done", "--", "true")
    wait_for(lambda: mngr.get_agent("done")["state"] == "DONE")
    mngr("stop", "foo")
    first = mngr.get_agent("foo")
    assert mngr("stop", "foo").out == "foo had ended already (STOPPED)\n"
    assert mngr.get_agent("foo")["state_since"] == first["state_since"]
    assert mngr("stop", "done").out == "done had ended already (DONE)\n"
    assert mngr.get_agent("done")["state"] == "DONE"


def test_a_process_can_clean_up_within_the_grace_period(mngr: MngrProgram) -> None:
    line = "trap 'sleep 1; echo cleaned >clean.log; exit 0' TERM; echo ready >ready.log; while :; do sleep 0.05; done"
    mngr("create", "foo", "--", "sh", "-c", line)
    wait_for((mngr.get_work_dir("foo") / "ready.log").exists)
    mngr("stop", "foo", "--grace", "20s")
    assert (mngr.get_work_dir("foo") / "clean.log").exists()


def test_a_process_that_ignores_signals_is_killed_with_its_children(mngr: MngrProgram) -> None:
    line = "trap '' TERM HUP INT; (trap '' TERM HUP; exec sleep 1001) & echo $! >child.log; while :; do sleep 1; done"
    mngr("create", "foo", "--", "sh", "-c", line)
    log = mngr.get_work_dir("foo") / "child.log"
    child = int(wait_for(lambda: log.exists() and log.read_text()))
    pid = mngr.get_agent("foo")["pid"]
    start = time.monotonic()
    mngr("stop", "foo", "--grace", "0.3")
    assert time.monotonic() - start < 8
    wait_for(lambda: is_gone(pid) and is_gone(child), 3)
    assert mngr.get_agent("foo")["state"] == "STOPPED"


def test_an_interactive_shell_stops_before_the_grace_period_ends(mngr: MngrProgram) -> None:
    """Such a shell ignores TERM and runs its commands in their own process groups."""
    mngr("create", "foo", "--", "bash", "--norc", "-i")
    mngr.run_tmux("send-keys", "-t", "=foo:", "sleep 1002 & echo $! >child.log; sleep 1003", "Enter")
    log = mngr.get_work_dir("foo") / "child.log"
    child = int(wait_for(lambda: log.exists() and log.read_text()))
    pid = mngr.get_agent("foo")["pid"]
    start = time.monotonic()
    mngr("stop", "foo", "--grace", "40s")
    assert time.monotonic() - start < 20
    wait_for(lambda: is_gone(pid) and is_gone(child), 3)


def test_stopping_many_agents_takes_one_grace_period(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "5", "--", "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done")
    pids = [a["pid"] for a in mngr.list_agents()]
    start = time.monotonic()
    result = mngr("stop", "-", "nobody", "--grace", "1s", stdin="\n".join(f"w-{n}" for n in range(1, 6)), code=4)
    assert time.monotonic() - start < 5
    assert result.out.split("\n")[:-1] == [f"stopped w-{n}" for n in range(1, 6)]
    assert "Error: nobody: there is no agent 'nobody'" in result.err
    assert {a["state"] for a in mngr.list_agents()} == {"STOPPED"}
    wait_for(lambda: all(is_gone(pid) for pid in pids), 3)


def test_stop_spares_other_agents(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "foo-2", "-w", "w=sleep 1000", *RUN)
    mngr("stop", "foo")
    assert mngr.get_agent("foo-2")["state"] == "RUNNING"
    assert mngr.run_tmux("list-windows", "-t", "=foo-2", "-F", "#{window_name}").split() == ["agent", "w"]


def test_stop_results_as_json(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    rows = mngr.run_json("stop", "foo", "nobody", code=4)["results"]
    assert [(r["name"], r["ok"], r["error"]) for r in rows] == [
        ("foo", True, None),
        ("nobody", False, "there is no agent 'nobody'"),
    ]
    assert rows[0]["was"] == "RUNNING" and rows[0]["id"] == mngr.get_agent("foo")["id"]


def test_a_single_failure_in_json_is_a_row_and_an_error(mngr: MngrProgram) -> None:
    result = mngr("stop", "nosuch", "--format", "json", code=1)
    assert result.parse_json()["results"][0]["ok"] is False
    error = json.loads(result.err)["error"]
    assert "nosuch" in error["message"] and error["hint"] and error["code"] == 1


def test_stop_does_not_block_on_a_fifo_in_the_agents_directory(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    agent_dir = mngr.get_agent_dir("foo")
    for name in ("events.jsonl", "stopped"):
        (agent_dir / name).unlink(missing_ok=True)
        os.mkfifo(agent_dir / name)
    mngr("stop", "foo", timeout=20)
    assert mngr.get_agent("foo")["state"] == "STOPPED"
