"""The life of an agent on every kind of host: start, enter, send, watch, stop; with a real tmux server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import wait_for
from tests.host.scripts.conftest import Land, Place

pytestmark = pytest.mark.hosts

# An agent that answers every line with an event, as a hook would.
ECHO = 'echo ready >"$MNGR_AGENT_DIR/ready"; while read -r line; do echo "got $line" >>"$MNGR_AGENT_DIR/events.jsonl"; done'

TAKE = """cd "$MNGR_AGENT_DIR" && mkdir inbox && echo ready >ready
while :; do
    for file in inbox/*; do
        [ -f "$file" ] && echo "got ${file##*.} $(cat "$file")" >>events.jsonl && rm "$file"
    done
    sleep 0.05
done"""


@dataclass(frozen=True)
class Process:
    """One process, which is not confused with a later process of the same pid."""

    pid: int
    began: str

    @classmethod
    def of(cls, pid: int) -> Process:
        return cls(pid, _stat(pid)[19])

    def is_gone(self) -> bool:
        try:
            stat = _stat(self.pid)
        except OSError:
            return True
        return stat[0] == "Z" or stat[19] != self.began


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def wait_for_pid_file(path: Path) -> Process:
    """Wait for a file with a pid and return its process."""
    return Process.of(int(wait_for(lambda: path.exists() and path.read_text())))


def list_event_types(folder: Path) -> list[str]:
    return [json.loads(line)["type"] for line in (folder / "events.jsonl").read_text().splitlines()]


def send(place: Place, folder: Path, text: str, mark: str, timeout: int = 10, pause: str = "0") -> str:
    ready = str(folder / "ready")
    return place.land.run(
        "send_message.sh", place.socket, folder, timeout, ready, pause, mark, "", stdin=text, timeout=timeout + 10
    ).strip()


# ---- start, enter, launch


def test_an_agent_runs_and_its_exit_code_is_recorded(place: Place) -> None:
    folder = place.agent(1, "sh", "-c", 'echo "$MNGR_AGENT_ID in $PWD"; read -r x; exit 7')
    answer = place.launch(folder).split()
    assert answer[0] == "running" and int(answer[1]) == int((folder / "proc").read_text())
    wait_for(lambda: f"{folder.name} in {place.home}" in place.tmux("capture-pane", "-p", "-J", "-t", "=n1:"))
    assert place.list()[f"pane {folder.name}"].split()[1] == "agent"
    place.tmux("send-keys", "-t", "=n1:", "Enter")
    record = json.loads(wait_for(lambda: (folder / "exit").exists() and (folder / "exit").read_text()))
    assert record["code"] == 7 and abs(record["at"] - time.time()) < 10
    assert wait_for(lambda: list_event_types(folder)) == ["exited"]
    row = json.loads((folder / "events.jsonl").read_text())
    assert (row["agent"], row["source"], row["data"]) == (folder.name, "wrapper", {"code": 7})


def test_a_start_removes_old_state_files_of_any_type(place: Place) -> None:
    folder = place.agent(1, "sleep", "1000")
    victim = place.home / "victim"
    (folder / "exit").mkdir()
    (folder / "exit" / "x").touch()
    (folder / "proc").symlink_to(victim)
    os.mkfifo(folder / "status")
    (folder / "stopped").mkdir()
    assert place.launch(folder).startswith("running ")
    assert not victim.exists() and (folder / "proc").is_file()
    assert not any((folder / name).exists() for name in ("exit", "status", "stopped"))


def test_links_instead_of_state_files_are_not_followed(place: Place) -> None:
    folder = place.start(1, "sh", "-c", "read -r x")
    victim = place.home / "kept"
    victim.write_text("mine\n")
    for name in ("exit", "events.jsonl"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    place.tmux("send-keys", "-t", "=n1:", "Enter")
    wait_for(lambda: place.tmux("list-panes", "-a", "-F", "#{pane_dead}") == "1\n")
    assert victim.read_text() == "mine\n"
    assert json.loads((folder / "exit").read_text())["code"] == 0


def test_a_missing_program_is_reported_with_exit_code_127(place: Place) -> None:
    folder = place.agent(1, "no-such-program")
    assert place.launch(folder, code=10) == "ended\nno-such-program: command not found\n"
    assert json.loads((folder / "exit").read_text())["code"] == 127


def test_enter_uses_the_agents_work_dir_and_environment(place: Place) -> None:
    folder = place.agent(1, "true")
    output = place.land.run("run_in_work_dir.sh", folder, "sh", "-c", 'echo "$PWD $MNGR_AGENT_ID $1"', "x", "a  b")
    assert output == f"{place.home} {folder.name} a  b\n"
    reason_file = folder / "why"
    argv = place.land.argv("run_in_work_dir.sh", "-f", reason_file, folder, "cd")  # a shell builtin, not a program
    assert subprocess.run(argv, env=place.land.env, capture_output=True, check=False).returncode == 125
    assert reason_file.read_text() == "cd: command not found\n"


def test_everything_works_with_a_sleep_without_fractions(tmp_path: Path, place: Place) -> None:
    if place.land.name != "busybox":  # busybox uses its own sleep
        place.land.replace("sleep", '#!/bin/sh\ncase $1 in *.*) exit 1 ;; esac\nexec {real} "$@"\n')
    folder = place.start(1, "sh", "-c", ECHO)
    assert send(place, folder, "hello", "got hello", pause="0.01") == "proven"
    place.stop(folder)


def test_start_sends_no_signal_to_a_stranger_that_got_the_process_id_of_the_keeper(place: Place) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        (place.home / "keeper").write_text(f"{stranger.pid} 1\n")
        place.start(1, "sleep", "1000")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# ---- send


def test_send_reports_whether_the_message_is_proven_by_an_event(place: Place) -> None:
    folder = place.start(1, "sh", "-c", ECHO)
    assert send(place, folder, "hello", "got hello") == "proven"
    assert send(place, folder, "again", "got again", pause="0.1") == "proven"
    assert send(place, folder, "unasked", "") == "sent"
    wait_for(lambda: "got unasked" in (folder / "events.jsonl").read_text())
    assert send(place, folder, "hello", "got something else", timeout=0) == "unproven"
    place.stop(folder)
    assert send(place, folder, "hello", "got hello") == "not-running"
    assert send(place, folder.parent / "a-00000000ffff", "hello", "x") == "not-running"


def send_by_file(place: Place, folder: Path, text: str, mark: str, key: str = "", timeout: int = 10) -> str:
    """Send a message to a program that takes files from a directory."""
    words = (place.socket, folder, timeout, folder / "ready", "0", mark, "", "", "", key, "inbox")
    return place.land.run("send_message.sh", *words, stdin=text, timeout=timeout + 10).strip()


def test_a_message_by_file_types_nothing_into_the_terminal(place: Place) -> None:
    folder = place.start(1, "sh", "-c", TAKE)
    assert send_by_file(place, folder, "hello\nyou", "got message hello") == "proven"
    assert send_by_file(place, folder, "allow", "", key="allow") == "sent"
    wait_for(lambda: "got allow allow" in (folder / "events.jsonl").read_text())
    wait_for(lambda: os.listdir(folder / "inbox") == [])
    assert "hello" not in place.tmux("capture-pane", "-p", "-t", "=n1:")


def test_a_message_file_that_is_not_taken_is_removed(place: Place) -> None:
    folder = place.start(1, "sh", "-c", 'cd "$MNGR_AGENT_DIR" && mkdir inbox && echo yes >ready; exec sleep 1000')
    assert send_by_file(place, folder, "hello", "got it", timeout=0) == "not-ready"
    assert os.listdir(folder / "inbox") == []


def test_a_pipe_instead_of_the_events_file_does_not_block_send(place: Place) -> None:
    folder = place.start(1, "sh", "-c", ECHO)
    wait_for((folder / "ready").exists)
    (folder / "events.jsonl").unlink()
    os.mkfifo(folder / "events.jsonl")
    assert send(place, folder, "hello", "got hello", timeout=1) == "unproven"


def test_eight_concurrent_senders_all_get_an_answer(any_land: Land, tmp_path: Path) -> None:
    """The first sender waits for the program while it holds the lock; the others wait for the lock."""
    folder = tmp_path / "a-000000000001"
    folder.mkdir()
    argv = ("send_message.sh", tmp_path / "none", folder, 4, folder / "ready", "0", "", "")
    senders = [any_land.start(*argv) for _ in range(8)]
    (folder / "ready").write_text("yes")
    assert [process.communicate(timeout=20) for process in senders] == [("not-running\n", "")] * 8
    assert set(os.listdir(folder)) <= {"ready", "send.lock"}


# ---- stop

STUBBORN = "trap '' TERM HUP INT; (trap '' TERM HUP; exec sleep 1001) & echo $! >child; while :; do sleep 1; done"
CLEANS_UP = "trap 'sleep 0.7; echo done >cleaned; exit 0' TERM; echo yes >started; while :; do sleep 0.05; done"


@pytest.fixture(params=[True, False], ids=["", "without proc"])
def stopping(request: pytest.FixtureRequest, place: Place) -> Place:
    """A place with and without /proc. busybox finds no processes without /proc, so it keeps it."""
    place.land.has_proc = request.param or place.land.name == "busybox"
    return place


def test_stop_ends_all_processes_of_the_session_and_no_others(stopping: Place) -> None:
    folder = stopping.start(1, "sh", "-c", STUBBORN)
    other = stopping.start(2, "sleep", "1000")
    child = wait_for_pid_file(stopping.home / "child")
    first, second = (wait_for_pid_file(f / "proc") for f in (folder, other))
    start = time.monotonic()
    stopping.stop(folder, grace=0.5)
    assert time.monotonic() - start < 5
    wait_for(lambda: first.is_gone() and child.is_gone(), 3)
    assert not second.is_gone()
    assert json.loads((folder / "stopped").read_text())["reason"] == ""
    assert stopping.tmux("list-sessions", "-F", "#{session_name}").split() == ["n2"]


def test_stop_gives_a_process_time_to_clean_up(stopping: Place) -> None:
    folder = stopping.start(1, "sh", "-c", CLEANS_UP)
    wait_for((stopping.home / "started").exists)
    stopping.stop(folder, grace=10)
    assert (stopping.home / "cleaned").exists()


def test_stop_ends_an_interactive_shell_quickly(stopping: Place) -> None:
    folder = stopping.start(1, "/bin/bash", "--norc", "-i")
    stopping.tmux("send-keys", "-t", "=n1:", "sleep 1002 & echo $! >child; sleep 1003", "Enter")
    child = wait_for_pid_file(stopping.home / "child")
    start = time.monotonic()
    stopping.stop(folder, grace=15)
    assert time.monotonic() - start < 10
    wait_for(child.is_gone, 3)


def test_stop_ends_a_process_that_outlived_its_terminal(stopping: Place) -> None:
    folder = stopping.start(1, "sh", "-c", "trap '' HUP; echo yes >started; while :; do sleep 1; done")
    wait_for((stopping.home / "started").exists)
    other = stopping.agent(2, "true")
    stranger = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    (other / "proc").write_text(f"{stranger.pid}\n")  # the process belongs to no agent
    process = wait_for_pid_file(folder / "proc")
    server = Process.of(int(stopping.tmux("display-message", "-p", "#{pid}")))
    os.kill(int(stopping.tmux("list-panes", "-a", "-F", "#{pane_pid}")), signal.SIGKILL)
    os.kill(server.pid, signal.SIGKILL)
    wait_for(server.is_gone)
    assert not process.is_gone()
    stopping.stop(folder, other, grace=1)
    wait_for(process.is_gone, 3)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_hostile_state_files_do_not_block_stop(place: Place) -> None:
    folder = place.start(1, "sleep", "1000")
    dead = place.agent(2, "true")
    victim = place.home / "kept"
    victim.write_text("mine\n")
    (folder / "stopped").symlink_to(victim)
    os.mkfifo(dead / "stopped")
    with (dead / "proc").open("wb") as file:
        file.truncate(20 << 30)
    start = time.monotonic()
    place.stop(folder, dead)
    assert time.monotonic() - start < 5
    assert victim.read_text() == "mine\n"
    assert all(json.loads((agent_dir / "stopped").read_text()) for agent_dir in (folder, dead))


# ---- watch


def start_watcher(place: Place) -> None:
    place.land.start("watch.sh", place.socket, place.home, place.lib, "2")


def write_limit(folder: Path, idle: object, life: object) -> None:
    (folder / "limit").write_text(f"{idle} {life} {int(time.time())}\n")


def test_limits_are_enforced_despite_hostile_limit_files(place: Place) -> None:
    idle = place.start(1, "sleep", "1000")
    old = place.start(2, "sh", "-c", "while :; do echo busy; sleep 0.2; done")
    free = place.start(3, "sh", "-c", "while :; do echo busy; sleep 0.2; done")
    hostile = [place.start(number, "sleep", "1000") for number in range(4, 9)]
    write_limit(idle, 1, "-")
    write_limit(old, "-", 1)
    write_limit(free, 60, 1000)
    os.mkfifo(hostile[0] / "limit")
    (hostile[1] / "limit").write_text("- 5 08\n")
    with (hostile[2] / "limit").open("wb") as file:
        file.truncate(20 << 30)
    (hostile[3] / "limit").symlink_to("/dev/zero")
    (hostile[4] / "limit").write_text("1 1 1; echo x\n99999999999999999999999 - 1\n")
    (idle / "events.jsonl").unlink()
    os.mkfifo(idle / "events.jsonl")
    start_watcher(place)
    stopped = [f / "stopped" for f in (idle, old)]
    wait_for(lambda: all(path.exists() and path.stat().st_size for path in stopped), 15)
    assert json.loads((idle / "stopped").read_text())["reason"] == "idle"
    assert json.loads((old / "stopped").read_text())["reason"] == "lifetime"
    wait_for(lambda: "stopped" in list_event_types(old))
    assert not any((f / "stopped").exists() for f in (free, *hostile))


def test_a_watcher_without_limits_ends(place: Place) -> None:
    folder = place.start(1, "sleep", "1000")
    start_watcher(place)
    (process,) = place.land.processes
    out, err = process.communicate(timeout=15)
    assert (process.returncode, out, err) == (0, "", "")
    assert not (folder / "stopped").exists()
