"""Tests the sandbox of clean rooms: a hostile commit cannot escape, is stopped and reported; honest tests work."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.agents.sandbox.host_isolation import SandboxUnavailable
from mngr.base.errors import MngrError
from mngr.base.json_structs import decode, encode
from mngr.tmr.cleanroom import sandbox
from mngr.tmr.cleanroom.clean_room import CleanRoom, CommandOutcome
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.runners.test_run import TestRun
from tests.conftest import wait_for
from tests.support.person import PEOPLE, person
from tests.tmr.world import BARE, World, new_world

SECRET = "hunter" + secrets.token_hex(8)
SMALL = CleanRoomSandbox(processes=60, memory=300 << 20, disk=32 << 20)

FILES = {
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
    "tests/test_honest.py": """
        import multiprocessing, os, pathlib, pty, socket, subprocess


        def test_honest(tmp_path):
            (tmp_path / "a").write_text("a")
            assert not os.path.exists("made")
            pathlib.Path("made").write_text("in the workspace")
            pathlib.Path("/var/tmp/b").write_text("b")
            home = pathlib.Path.home()
            assert list(home.iterdir()) == []
            (home / ".settings").write_text("mine")
            with socket.create_server(("127.0.0.1", 0)) as server:
                client = socket.create_connection(server.getsockname())
                server.accept()[0].sendall(b"hello")
                assert client.recv(5) == b"hello"
            subprocess.run(["git", "init", "-q", tmp_path], check=True)
            subprocess.run(["git", "status", "--short"], check=True)
            with multiprocessing.Pool(2) as pool:
                assert pool.map(abs, [-1, -2]) == [1, 2]
            pid, fd = pty.fork()
            if pid == 0:
                os.execvp("tty", ["tty"])
            assert b"/dev/pts" in os.read(fd, 100)
            os.waitpid(pid, 0)
        """,
    "tests/test_hostile.py": r"""
        import os, signal, time


        def test_forks():
            while True:
                os.fork()


        def test_parent():
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)


        def test_escapes():
            print("\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J")
            assert False, "\x1b[2J"


        def test_hangs():
            time.sleep(600)
        """,
}
# Hostile programs, each with the rule and the level of the finding.
# `everybody` first checks that it has its own pid namespace: otherwise it would kill every process of this machine.
HOSTILE = {
    "disk": (
        "for n in range(100):\n    open(f'big{n}', 'wb').write(b'x' * (20 << 20))\ntime.sleep(60)",
        ("clean-room-disk", "refuse"),
    ),
    "unlinked": (
        "for n in range(9):\n    files.append(open('big', 'wb')); os.unlink('big'); files[-1].write(b'x' * (20 << 20))\ntime.sleep(60)",
        ("clean-room-disk", "refuse"),
    ),
    "memory": ("files += [b'x' * (20 << 20) for _ in range(40)]; time.sleep(60)", ("clean-room-memory", "refuse")),
    "output": ("while True: os.fork(); print('x' * 10000)", ("clean-room-fork", "refuse")),
    "threads": (
        "for _ in range(90): threading.Thread(target=time.sleep, args=(60,)).start()",
        ("clean-room-fork", "refuse"),
    ),
    "file": ("open('/tmp/big', 'wb').write(b'x' * (40 << 20))", ("clean-room-disk", "note")),
    "outside": ("open('/etc/planted', 'w')", ("clean-room-outside", "note")),
    "git": (
        r"open('.git/config', 'a').write('[core]\n fsmonitor = touch /planted')",
        ("clean-room-outside", "note"),
    ),
    "network": ("socket.create_connection(('192.0.2.1', 80), 5)", ("clean-room-network", "note")),
    "everybody": ("os.getpid() < 50 and os.kill(-1, signal.SIGTERM)", ("clean-room-parent", "note")),
    "report": (
        "os.write(os.open(f'/proc/{os.getppid()}/fd/8', os.O_WRONLY), b'forged')",
        ("clean-room-parent", "refuse"),
    ),
    "daemon": (
        "if os.fork() == 0: os.setsid(); os.execvp('sleep', ['sleep', '600.25'])",
        ("clean-room-left", "note"),
    ),
}
IMPORTS = "import os, signal, socket, sys, threading, time\nfiles = []\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("API_KEY", SECRET)
        with new_world(tmp_path_factory.mktemp("sandbox"), FILES, SMALL) as world:
            home = world.root / "user"
            for folder in (home / ".ssh", world.root / "home/agents/other", world.root / "home/runs", world.repo):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "id_secret").write_text(SECRET)
            yield world


def list_rules(run: TestRun | CommandOutcome) -> list[tuple[str, str]]:
    return [(finding.rule, finding.level) for finding in run.findings]


def run_hostile_program(room: CleanRoom, name: str) -> CommandOutcome:
    return room.run(["python3", "-c", IMPORTS + HOSTILE[name][0]], timeout=30)


def test_honest_tests_pass_in_the_sandbox_without_findings(world: World) -> None:
    for _ in range(2):
        run = world.run("test_honest")
        assert (run.outcome, run.findings) == ("pass", []), run.failures
        version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        assert run.isolation == f"{version}, user namespaces, network namespaces, seccomp; no network"


@pytest.mark.parametrize(("name", "rule"), [("test_forks", "clean-room-fork"), ("test_parent", "clean-room-parent")])
def test_a_hostile_test_is_stopped_and_refused(world: World, name: str, rule: str) -> None:
    run = world.run(name)
    assert (run.outcome, list_rules(run)) == ("crash", [(rule, "refuse")]), run
    assert run.why == run.findings[0].what and run.findings[0].path == "tests/test_hostile.py"
    assert decode(TestRun, encode(run)) == run


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_is_stopped_and_reported(world: World, name: str) -> None:
    outcome = run_hostile_program(world.room, name)
    assert list_rules(outcome) == [HOSTILE[name][1]] and not outcome.timed_out, outcome
    assert bool(outcome.stop_reason) == (HOSTILE[name][1][1] == "refuse")
    assert not os.path.exists("/etc/planted") and not os.path.exists("/planted")


def test_a_daemon_does_not_outlive_the_sandbox(world: World) -> None:
    assert run_hostile_program(world.room, "daemon").leftover_processes == 1
    listing = ["pgrep", "-f", "sleep 600.25"]
    wait_for(lambda: subprocess.run(listing, capture_output=True, check=False).returncode == 1)


def test_terminal_control_codes_are_escaped_and_reported(world: World) -> None:
    run = world.run("test_escapes")
    assert (run.outcome, list_rules(run)) == ("fail", [("clean-room-escape", "note")])
    recorded = run.output + run.why + run.failures[0].text + "".join(run.failures[0].sections.values())
    assert "\x1b" not in recorded and r"red\x1b]0;title\x07\x1b[2J" in recorded


def test_a_hanging_test_is_interrupted_in_the_sandbox(world: World) -> None:
    for timeout in (1.5, 5, 20):  # on a busy machine pytest may need longer to reach the test
        run = world.run("test_hangs", timeout=timeout)
        assert run.outcome == "timeout"
        if run.failures and run.failures[0].frames:
            break
    assert [frame.function for frame in run.failures[0].frames][-1] == "test_hangs"


def test_secrets_are_not_visible_in_the_sandbox(world: World) -> None:
    """Searches the whole file system by name, and the environments of all processes."""
    script = f"""
    find / \\( -path /usr -o -path /proc \\) -prune -o -name id_secret -print 2>/dev/null
    grep -ls {SECRET[:12]} /proc/[0-9]*/environ
    env | grep {SECRET[:12]}
    cat {world.root}/user/.ssh/id_secret {world.repo}/README.md /etc/shadow
    ls {world.root}/home/agents | wc -l
    echo $HOME; ls -A $HOME
    set -- /proc/[0-9]*; echo $#
    """
    outcome = world.room.run(["sh", "-c", script])
    assert outcome.out.split() == ["1", "/home/room", "3"], outcome
    assert outcome.err.count("No such file") == 2, outcome


def test_only_the_workspace_and_temporary_directories_are_writable(world: World) -> None:
    script = """
    for place in / /usr /etc /etc/ssl /dev /proc /proc/sys/kernel /var /home .git "$MNGR_OUTPUT_DIR/tmr" \
        . /tmp /var/tmp /dev/shm "$HOME" "$MNGR_OUTPUT_DIR"; do
        (echo x >"$place/planted") 2>/dev/null && echo "$place"
    done
    echo x >"$MNGR_AGENT_DIR/planted"
    """
    outcome = world.room.run(["sh", "-c", script])
    outputs = world.room.run(["printenv", "MNGR_OUTPUT_DIR"], clean=False).out.strip()
    assert outcome.out.split() == [".", "/tmp", "/var/tmp", "/dev/shm", "/home/room", outputs]
    assert os.path.exists(f"{world.room.work_dir}/planted")
    assert not os.path.exists(f"{os.path.dirname(outputs)}/planted")


def test_the_network_is_reachable_only_when_requested(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        argv = ["python3", "-c", program]
        assert world.room.run(argv).code == 1
        options = CleanRoomOptions(env=BARE, sandbox=SMALL.replace(network=True))
        rooms = CleanRoomPool(world.fleet, "open", str(world.repo), options)
        with contextlib.closing(rooms), rooms.acquire(world.base) as room:
            assert room.run(argv).code == 0 and room.isolation.endswith("; network open")


def test_a_clean_room_without_bubblewrap_refuses_to_run_tests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_BIN_DIRS", ("/nowhere",))
    pool = CleanRoomPool(world.fleet, "bare", str(world.repo), CleanRoomOptions(env=BARE, sandbox=SMALL))
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap \(bwrap\) is not installed"), pool.acquire(world.base):
        pass
    assert [agent.name for agent in world.fleet.list().agents if agent.labels.get("run") == "bare"] == []


def test_links_out_of_the_work_dir_are_rejected(world: World, tmp_path: Path) -> None:
    outcome = world.room.run(["sh", "-c", "ln -s README.md here; ln -s /nowhere there; ln -s /etc way"])
    assert outcome.code == 0 and world.room.read("here") == (world.repo / "README.md").read_bytes()
    with pytest.raises(MngrError, match="No such file"):
        world.room.read("there")
    with pytest.raises(MngrError, match="outside the work dir"):
        world.room.pull("way/passwd", str(tmp_path / "came"))


# An ordinary user's clean room, in which a shell creates unremovable directories and too many processes.
ORDINARY = """
import contextlib, os, sys
from mngr import Fleet
from mngr.tmr.cleanroom.clean_rooms import CleanRoomOptions, CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
home, repo = sys.argv[1:]
commit = os.popen("git rev-parse HEAD").read().strip()
options = CleanRoomOptions(sandbox=CleanRoomSandbox(processes=60))
pool = CleanRoomPool(Fleet(home, cwd=repo), "r", repo, options)
with contextlib.closing(pool), pool.acquire(commit) as room:
    ran = room.run(["sh", "-c", "mkdir -p d/e $MNGR_OUTPUT_DIR/f/g; chmod 000 d/e d $MNGR_OUTPUT_DIR/f; touch /usr/x"])
    print(room.isolation)
    print(ran.findings[0].rule)
    print(room.run(["ls"]).out.split())
    print(room.run(["sh", "-c", "while :; do sleep 60 & done"]).findings[0].rule)
print(os.listdir(home + "/work"), os.listdir(home + "/agents"))
"""


@pytest.mark.full
@pytest.mark.parametrize("name", PEOPLE)
def test_the_sandbox_works_for_every_kind_of_user(name: str) -> None:
    with person(name) as user:
        python_args = user.argv()
        python_args = python_args[: python_args.index("-m")] if "-m" in python_args else [sys.executable]
        result = subprocess.run(
            [*python_args, "-c", ORDINARY, str(user.home), str(user.repo)],
            cwd=user.repo, env=user.env, capture_output=True, text=True, check=True,
        )  # fmt: skip
    isolation, *rows = result.stdout.splitlines()
    assert isolation.startswith("bubblewrap ") and isolation.endswith("; no network")
    assert rows == ["clean-room-outside", "['README.md', 'src']", "clean-room-fork", "[] []"]
