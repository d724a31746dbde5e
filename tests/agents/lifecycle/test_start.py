"""Tests `mngr start`: an agent continues where it was, also after its tmux server or machine has gone down."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from tests.conftest import MngrProgram, wait_for

RUN = ("--", "sleep", "1000")
COUNT = "echo run >>runs.log; exec sleep 1000"


def count_runs(mngr: MngrProgram, name: str) -> int:
    file = mngr.get_work_dir(name) / "runs.log"
    return file.read_text().count("run") if file.exists() else 0


def test_start_restores_a_stopped_agent_completely(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--env", "A=b", "--label", "k=v", "-w", "w=sleep 1000", "--", "sh", "-c", COUNT)
    before = mngr.get_agent("foo")
    wait_for(lambda: count_runs(mngr, "foo") == 1)
    mngr("stop", "foo")
    assert mngr("start", "foo").out == "started foo\n"
    after = mngr.get_agent("foo")
    assert (after["state"], after["id"], after["work_dir"], after["labels"]) == (
        "RUNNING",
        before["id"],
        before["work_dir"],
        {"k": "v"},
    )
    assert after["pid"] != before["pid"]
    wait_for(lambda: count_runs(mngr, "foo") == 2)
    assert b"A=b" in Path(f"/proc/{after['pid']}/environ").read_bytes().split(b"\0")
    assert mngr.run_tmux("list-windows", "-t", "=foo", "-F", "#{window_name}").split() == ["agent", "w"]
    assert mngr("start", "foo").out == "foo was running already\n"
    assert mngr.get_agent("foo")["pid"] == after["pid"]


def test_start_runs_an_ended_agent_again(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "echo run >>runs.log; exit 3")
    wait_for(lambda: mngr.get_agent("foo")["state"] == "FAILED")
    mngr("start", "foo")
    wait_for(lambda: count_runs(mngr, "foo") == 2 and mngr.get_agent("foo")["exit_code"] == 3)


def test_start_restores_agents_after_the_tmux_server_was_killed(mngr: MngrProgram) -> None:
    mngr("create", "w", "--count", "3", *RUN)
    os.kill(int(mngr.run_tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    wait_for(lambda: {a["state_reason"] for a in mngr.list_agents()} == {"lost"})
    mngr("start", "w-1", "w-2", "w-3")
    assert {a["state"] for a in mngr.list_agents()} == {"RUNNING"}


def test_start_works_without_the_tmux_socket_as_after_a_reboot(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    socket = Path(os.readlink(mngr.home / "tmux.socket"))
    mngr.run_tmux("kill-server")
    socket.unlink(missing_ok=True)
    mngr("start", "foo")
    assert mngr.get_agent("foo")["state"] == "RUNNING" and socket.is_socket()


def test_start_ends_a_process_that_outlived_its_terminal(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", "trap '' HUP TERM; while :; do sleep 1; done")
    old_pid = mngr.get_agent("foo")["pid"]
    os.kill(int(mngr.run_tmux("display-message", "-p", "#{pid}")), signal.SIGKILL)
    wait_for(lambda: mngr.get_agent("foo")["state_reason"] == "lost")
    assert Path(f"/proc/{old_pid}").exists()
    mngr("start", "foo")
    wait_for(lambda: not Path(f"/proc/{old_pid}").exists(), 3)
    assert mngr.get_agent("foo")["state"] == "RUNNING"


def test_start_spares_another_process_with_the_old_pid(mngr: MngrProgram) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "bar", *RUN)
    mngr("stop", "foo")
    (mngr.get_agent_dir("foo") / "proc").write_text(f"{mngr.get_agent('bar')['pid']}\n")
    mngr("start", "foo")
    assert {a["state"] for a in mngr.list_agents()} == {"RUNNING"}


def test_an_agent_that_cannot_start_keeps_its_state(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", *RUN)
    mngr("create", "bar", *RUN)
    mngr("stop", "foo", "bar")
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    for name in (
        "sh",
        "git",
        "env",
        "awk",
        "date",
        "grep",
        "tr",
        "sort",
        "mkdir",
        "rm",
        "cat",
        "sleep",
        "ps",
        "pkill",
        "pgrep",
    ):
        (bin_dir / name).symlink_to(shutil.which(name) or "/bin/false")
    result = mngr("start", "foo", env={"PATH": str(bin_dir)}, code=1)
    assert "tmux is not installed" in result.err and "Hint:" in result.err
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    mngr("create", "other", *RUN)
    mngr.run_tmux("new-session", "-d", "-s", "foo", "sleep", "1000")
    assert "tmux already has a session called 'foo'" in mngr("start", "foo", code=1).err
    assert mngr.get_agent("foo")["state"] == "STOPPED"
    mngr.run_tmux("kill-session", "-t", "=foo")
    shutil.rmtree(mngr.get_work_dir("bar"))
    result = mngr("start", "bar", "foo", code=4)
    assert "the work dir of bar no longer exists" in result.err
    assert (mngr.get_agent("foo")["state"], mngr.get_agent("bar")["state"]) == ("RUNNING", "STOPPED")
    assert "there is no agent" in mngr("start", "nobody", code=1).err


def test_parallel_starts_create_only_one_process(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sh", "-c", COUNT)
    wait_for(lambda: count_runs(mngr, "foo") == 1)
    mngr("stop", "foo")
    import concurrent.futures

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: mngr("start", "foo"), range(4)))
    assert mngr.get_agent("foo")["state"] == "RUNNING"
    assert mngr.run_tmux("list-sessions", "-F", "#{session_name}") == "foo\n"
    wait_for(lambda: count_runs(mngr, "foo") == 2)
    assert count_runs(mngr, "foo") == 2


def test_state_since_is_the_time_of_the_last_start(mngr: MngrProgram) -> None:
    mngr("create", "foo", "--", "sleep", "1000")
    record = mngr.home / "agents" / mngr.get_agent("foo")["id"] / "agent.json"
    old_record = {**json.loads(record.read_text()), "created_at": "2020-01-01T00:00:00.000Z"}
    record.write_text(json.dumps(old_record, separators=(",", ":")) + "\n")
    mngr("stop", "foo")
    stopped_at = mngr.get_agent("foo")["state_since"]
    mngr("start", "foo")
    agent = mngr.get_agent("foo")
    assert (
        agent["created_at"] == old_record["created_at"] and agent["state_since"][:18] >= stopped_at[:18]
    )  # tmux knows only whole seconds.
