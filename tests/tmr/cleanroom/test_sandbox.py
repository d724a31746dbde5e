"""The clean room: what a hostile commit does in it stays in it, ends, and is found; honest tests notice nothing."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.base.errors import MngrError
from mngr.tmr.cleanroom import sandbox
from mngr.tmr.cleanroom.clean_rooms import CleanRoom, CleanRoomPool, CommandOutcome
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
from mngr.tmr.cleanroom.test_run import TestRun
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
# Programs, and the rule and the level of what is found
# `everybody` looks first whether it is in a pid namespace of its own: else it would end every process of this machine.
HOSTILE = {
    "disk": (
        "for n in range(100):\n    open(f'big{n}', 'wb').write(b'x' * (20 << 20))\ntime.sleep(60)",
        ("room-disk", "refuse"),
    ),
    "unlinked": (
        "for n in range(9):\n    files.append(open('big', 'wb')); os.unlink('big'); files[-1].write(b'x' * (20 << 20))\ntime.sleep(60)",
        ("room-disk", "refuse"),
    ),
    "memory": ("files += [b'x' * (20 << 20) for _ in range(40)]; time.sleep(60)", ("room-memory", "refuse")),
    "output": ("while True: os.fork(); print('x' * 10000)", ("room-fork", "refuse")),
    "threads": (
        "for _ in range(90): threading.Thread(target=time.sleep, args=(60,)).start()",
        ("room-fork", "refuse"),
    ),
    "file": ("open('/tmp/big', 'wb').write(b'x' * (40 << 20))", ("room-disk", "note")),
    "outside": ("open('/etc/planted', 'w')", ("room-outside", "note")),
    "git": (
        r"open('.git/config', 'a').write('[core]\n fsmonitor = touch /planted')",
        ("room-outside", "note"),
    ),
    "network": ("socket.create_connection(('192.0.2.1', 80), 5)", ("room-network", "note")),
    "everybody": ("os.getpid() < 50 and os.kill(-1, signal.SIGTERM)", ("room-parent", "note")),
    "daemon": (
        "if os.fork() == 0: os.setsid(); os.execvp('sleep', ['sleep', '600.25'])",
        ("room-left", "note"),
    ),
}
IMPORTS = "import os, signal, socket, sys, threading, time\nfiles = []\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("API_KEY", SECRET)
        with new_world(tmp_path_factory.mktemp("walls"), FILES, SMALL) as made:
            home = made.root / "user"
            for place in (home / ".ssh", made.root / "home/agents/other", made.root / "home/runs", made.repo):
                place.mkdir(parents=True, exist_ok=True)
                (place / "id_secret").write_text(SECRET)
            yield made


def rules(run: TestRun | CommandOutcome) -> list[tuple[str, str]]:
    return [(finding.rule, finding.level) for finding in run.findings]


def attack(room: CleanRoom, name: str) -> CommandOutcome:
    return room.run(["python3", "-c", IMPORTS + HOSTILE[name][0]], timeout=30)


def test_honest_tests_notice_nothing(world: World) -> None:
    for _ in range(2):
        run = world.run("test_honest")
        assert (run.outcome, run.findings, run.walls) == ("pass", [], "on"), run.failures


@pytest.mark.parametrize(("name", "rule"), [("test_forks", "room-fork"), ("test_parent", "room-parent")])
def test_a_hostile_test_ends_and_is_refused(world: World, name: str, rule: str) -> None:
    run = world.run(name)
    assert (run.outcome, rules(run)) == ("crash", [(rule, "refuse")]), run
    assert run.why == run.findings[0].what and run.findings[0].path == "tests/test_hostile.py"
    assert TestRun.from_dict(run.to_dict()) == run


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_ends_and_is_found(world: World, name: str) -> None:
    ran = attack(world.room, name)
    assert rules(ran) == [HOSTILE[name][1]] and not ran.timed_out, ran
    assert bool(ran.stop_reason) == (HOSTILE[name][1][1] == "refuse")
    assert not os.path.exists("/etc/planted") and not os.path.exists("/planted")


def test_no_daemon_outlives_it(world: World) -> None:
    assert attack(world.room, "daemon").leftover_processes == 1
    listing = ["pgrep", "-f", "sleep 600.25"]
    wait_for(lambda: subprocess.run(listing, capture_output=True, check=False).returncode == 1)


def test_codes_for_a_terminal_are_shown_and_not_kept(world: World) -> None:
    run = world.run("test_escapes")
    assert (run.outcome, rules(run)) == ("fail", [("room-escape", "note")])
    kept = run.output + run.why + run.failures[0].text + "".join(run.failures[0].sections.values())
    assert "\x1b" not in kept and r"red\x1b]0;title\x07\x1b[2J" in kept


def test_what_hangs_is_interrupted_behind_walls_too(world: World) -> None:
    for timeout in (1.5, 5, 20):  # on a busy machine pytest itself may need longer to get there
        run = world.run("test_hangs", timeout=timeout)
        assert run.outcome == "timeout"
        if run.failures and run.failures[0].frames:
            break
    assert [frame.function for frame in run.failures[0].frames][-1] == "test_hangs"


def test_nothing_secret_is_seen(world: World) -> None:
    """The whole file system is searched by name, and so is what processes were given."""
    line = f"""
    find / \\( -path /usr -o -path /proc \\) -prune -o -name id_secret -print 2>/dev/null
    grep -ls {SECRET[:12]} /proc/[0-9]*/environ
    env | grep {SECRET[:12]}
    cat {world.root}/user/.ssh/id_secret {world.repo}/README.md /etc/shadow
    ls {world.root}/home/agents | wc -l
    echo $HOME; ls -A $HOME; ls /proc | grep -c '^[0-9]'
    """
    ran = world.room.run(["sh", "-c", line])
    assert ran.out.split() == ["1", "/home/room", "5"], ran
    assert ran.err.count("No such file") == 2, ran


def test_only_the_workspace_and_its_own_places_can_be_written(world: World) -> None:
    line = """
    for place in / /usr /etc /etc/ssl /dev /proc /proc/sys/kernel /var /home .git "$MNGR_OUTPUT_DIR/tmr" \
        . /tmp /var/tmp /dev/shm "$HOME" "$MNGR_OUTPUT_DIR"; do
        (echo x >"$place/planted") 2>/dev/null && echo "$place"
    done
    echo x >"$MNGR_AGENT_DIR/planted"
    """
    ran = world.room.run(["sh", "-c", line])
    outputs = world.room.run(["printenv", "MNGR_OUTPUT_DIR"], clean=False).out.strip()
    assert ran.out.split() == [".", "/tmp", "/var/tmp", "/dev/shm", "/home/room", outputs]
    assert os.path.exists(f"{world.room.work_dir}/planted")
    assert not os.path.exists(f"{os.path.dirname(outputs)}/planted")


def test_a_server_outside_is_reached_only_when_that_was_asked_for(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        words = ["python3", "-c", line]
        assert world.room.run(words).code == 1
        rooms = CleanRoomPool(world.fleet, "open", str(world.repo), env=BARE, walls=SMALL.replace(network=True))
        with rooms.acquire(world.base) as room:
            assert (room.run(words).code, room.isolation) == (0, "on, with the network")


def test_where_there_can_be_no_walls_it_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_BIN_DIRS", ("/nowhere",))
    with CleanRoomPool(world.fleet, "bare", str(world.repo), env=BARE, walls=SMALL).acquire(world.base) as room:
        assert room.isolation == "none: bubblewrap (bwrap) is not installed"
        assert rules(attack(room, "disk")) == [("room-disk", "refuse")]


def test_no_link_leads_out_of_the_room(world: World, tmp_path: Path) -> None:
    ran = world.room.run(["sh", "-c", "ln -s README.md here; ln -s /nowhere there; ln -s /etc way"])
    assert ran.code == 0 and world.room.read("here") == (world.repo / "README.md").read_bytes()
    with pytest.raises(MngrError, match="No such file"):
        world.room.read("there")
    with pytest.raises(MngrError, match="not in the work dir"):
        world.room.pull("way/passwd", str(tmp_path / "came"))


# A room of somebody's, in which a shell makes things that cannot be removed, and more processes than it may.
ORDINARY = """
import os, sys
from mngr import Fleet
from mngr.tmr.cleanroom.clean_rooms import CleanRoomPool
from mngr.tmr.cleanroom.sandbox import CleanRoomSandbox
home, repo = sys.argv[1:]
commit = os.popen("git rev-parse HEAD").read().strip()
with CleanRoomPool(Fleet(home, cwd=repo), "r", repo, walls=CleanRoomSandbox(processes=60)).room(commit) as room:
    ran = room.run(["sh", "-c", "mkdir -p d/e $MNGR_OUTPUT_DIR/f/g; chmod 000 d/e d $MNGR_OUTPUT_DIR/f; touch /usr/x"])
    print(room.isolation, ran.findings[0].rule)
    print(room.run(["ls"]).out.split())
    print(room.run(["sh", "-c", "while :; do sleep 60 & done"]).findings[0].rule)
print(os.listdir(home + "/work"), os.listdir(home + "/agents"))
"""


@pytest.mark.full
@pytest.mark.parametrize("name", PEOPLE)
def test_the_walls_hold_whoever_builds_them(name: str) -> None:
    with person(name) as someone:
        words = someone.argv()
        words = words[: words.index("-m")] if "-m" in words else [sys.executable]
        ran = subprocess.run(
            [*words, "-c", ORDINARY, str(someone.home), str(someone.repo)],
            cwd=someone.repo, env=someone.env, capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert ran.stdout.splitlines() == ["on room-outside", "['README.md', 'src']", "room-fork", "[] []"]
