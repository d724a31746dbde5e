"""Tests that each known way out of a sandbox is closed, for root and for an ordinary user."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import wait_for
from tests.support.person import PEOPLE, Person, person

SECRET = "hunter" + secrets.token_hex(8)

# Types a line into the terminal, as if a user did it.
TYPE = """
import fcntl, sys, termios
try:
    for key in (sys.argv[1] + "\\n").encode():
        fcntl.ioctl(0, termios.TIOCSTI, bytes([key]))
    print("typed")
except OSError as error:
    print("refused", error.errno)
"""
# Adds a key to the session's keyring and runs a program, or requests that key.
KEYS = """
import ctypes, os, sys
first = {"x86_64": 248, "aarch64": 217, "riscv64": 217}[os.uname().machine]
call = ctypes.CDLL(None, use_errno=True).syscall
if sys.argv[1] == "add":
    call(first + 2, 1, b"mngr-test")
    call(first, b"user", b"mngr-key", b"value", 5, -3)
    os.execvp(sys.argv[2], sys.argv[2:])
print("found" if call(first + 1, b"user", b"mngr-key", 0, 0) > 0 else "refused")
"""
CONNECT = """
import socket, sys
for place in sys.argv[1:]:
    kind, _, where = place.partition("=")
    where = "\\0" + where if kind == "abstract" else where
    try:
        if kind == "tcp":
            socket.create_connection(("127.0.0.1", int(where)), timeout=5)
        else:
            socket.socket(socket.AF_UNIX).connect(where)
        print(place, "answers")
    except OSError:
        pass
"""


@pytest.fixture(scope="module", params=PEOPLE)
def someone(request: pytest.FixtureRequest) -> Iterator[Person]:
    """A person with a secret, a sandboxed agent `foo`, and other agents."""
    with person(request.param) as someone:
        for folder in (Path(someone.env["HOME"]) / ".ssh", someone.home.parent, someone.repo / ".git"):
            folder.mkdir(exist_ok=True)
            (folder / "id_secret").write_text(SECRET)
        someone("create", "foo", "--sandbox", "--", "sleep", "1000")
        someone("create", "twin", "--sandbox", "--", "sleep", "1000")
        someone("create", "open", "--env", f"TOKEN={SECRET}", "--", "sleep", "1000")
        someone("exec", "twin", "--", "sh", "-c", f"echo {SECRET} > id_secret")
        yield someone


def test_read_only_mounts_cannot_be_made_writable(someone: Person) -> None:
    line = 'for p in / /usr /etc "$MNGR_AGENT_DIR"; do mount -o remount,rw,bind "$p" && echo MOUNTED; touch "$p/made" && echo MADE; done'
    rows = someone.tries("foo", line)
    assert sum("cannot touch" in row for row in rows) == 4, rows
    assert not {"MOUNTED", "MADE"} & set(rows)


def test_a_sandboxed_agent_has_no_capability_and_cannot_get_one(someone: Person) -> None:
    caps = someone.tries("foo", "grep ^Cap /proc/self/status; grep NoNewPrivs /proc/self/status")
    assert [row.split()[1] for row in caps] == ["0" * 16] * 5 + ["1"]
    for flags in ("--user", "--user --map-root-user --mount", "--mount", "--net"):
        assert "IN" not in someone.tries("foo", f"unshare {flags} echo IN")


def test_kernel_settings_cannot_be_written(someone: Person) -> None:
    """`core_pattern` names a program that the kernel runs outside. The test writes the old value, to be safe."""
    line = """
    for f in kernel/core_pattern kernel/hostname vm/swappiness; do
        v=$(cat /proc/sys/$f); echo "$v" > /proc/sys/$f && echo WRITTEN $f
    done
    find /proc/sys /proc/self /proc/irq /proc/bus /proc/[a-z]* -maxdepth 2 -type f -writable 2>/dev/null | head
    """
    rows = someone.tries("foo", line)
    assert len(rows) == 3, rows
    assert not any(row.startswith("WRITTEN") for row in rows)


def test_passwords_and_keys_of_the_machine_are_hidden(someone: Person) -> None:
    line = "cat /etc/shadow /etc/gshadow /etc/ssh/ssh_host_*_key; ls /etc/ssl/private; [ -s /etc/passwd ] && echo there"
    rows = [row for row in someone.tries("foo", line) if "denied" not in row and "No such" not in row]
    assert rows == ["there"]


def test_no_socket_of_the_machine_can_be_reached(someone: Person) -> None:
    socket_name = f"mngr-{os.getpid()}-{secrets.token_hex(3)}"
    folders = ["/tmp", "/run", str(someone.home), someone.env["HOME"], str(someone.home.parent), "/var/tmp"]
    folders = [folder for folder in folders if os.access(folder, os.W_OK)]
    addresses = [f"unix={folder}/{socket_name}" for folder in folders]
    with ExitStack() as servers:
        for address in addresses:
            path = address.partition("=")[2]
            server = servers.enter_context(closing(socket.socket(socket.AF_UNIX)))
            server.bind(path)
            servers.callback(os.unlink, path)
            os.chmod(path, 0o777)
            server.listen(5)
        abstract = servers.enter_context(closing(socket.socket(socket.AF_UNIX)))
        abstract.bind(f"\0{socket_name}")
        abstract.listen(5)
        tcp = servers.enter_context(socket.create_server(("127.0.0.1", 0)))
        tmux = f"unix={os.readlink(someone.home / 'tmux.socket')}"
        addresses += [f"abstract={socket_name}", f"tcp={tcp.getsockname()[1]}", tmux]
        outside = subprocess.run(
            [sys.executable, "-c", CONNECT, *addresses], capture_output=True, text=True, check=True
        )
        assert outside.stdout.splitlines() == [f"{address} answers" for address in addresses]
        program = f"{CONNECT}\nprint('that was all')"
        assert someone.tries_python("foo", program, *addresses) == ["that was all"]


def test_a_sandboxed_agent_has_no_network(someone: Person) -> None:
    assert someone.tries("foo", "tail -n +3 /proc/net/dev | cut -d: -f1; cat /proc/net/route | wc -l") == [
        "    lo",
        "1",
    ]


def test_the_users_files_are_hidden(someone: Person) -> None:
    """The test searches the whole file system by names and by contents."""
    secret = os.stat(os.path.join(someone.env["HOME"], ".ssh", "id_secret"))
    line = f"""
    find / \\( -path /usr -o -path /proc \\) -prune -o -name id_secret -print -o \\
        -type f -newermt @{int(secret.st_mtime) - 1} -exec grep -ls {SECRET[:10]} {{}} + 2>/dev/null
    cat "{someone.env["HOME"]}/.ssh/id_secret" "{someone.repo}/README.md" && echo READ
    echo "$HOME"; ls -A "$HOME"
    """
    rows = someone.tries("foo", line)
    assert [row for row in rows if "No such file" not in row] == [
        f"{someone.get_agent_dir('foo')}/home",
        ".gitconfig",
    ]


def test_other_agents_and_mngrs_home_are_hidden(someone: Person) -> None:
    home = someone.home
    output_lines = someone.tries(
        "foo", f"ls {home} {home}/agents {home}/work {home}/names {home}/trash {home}/settings.toml"
    )
    rows = [row for row in output_lines if row and "cannot access" not in row and not row.endswith(":")]
    assert sorted(rows) == sorted(["agents", "lib", "work", someone.get_agent("foo")["id"], "foo"])


def test_an_agent_cannot_write_mngrs_files_about_it(someone: Person) -> None:
    files = "agent.json env command sandbox seccomp exit proc stopped limit lock new home/../new"
    line = f"""
    cd "$MNGR_AGENT_DIR"
    for f in {files}; do echo x >> "$f" && echo WRITTEN "$f"; rm -f "$f" && [ ! -e "$f" ] && echo GONE "$f"; done
    mv agent.json outputs/ && echo MOVED; ln -sf /etc/passwd events.jsonl && echo LINKED; rm events.jsonl && echo REMOVED
    rmdir outputs && echo REMOVED; mv outputs o && echo MOVED; chmod 777 . && echo OPENED
    echo row >> events.jsonl && echo row > outputs/x && echo row > home/x && echo fine
    """
    before = {name: (someone.get_agent_dir("foo") / name).read_bytes() for name in ("agent.json", "env", "sandbox")}
    rows = someone.tries("foo", line)
    words = {row.split()[0] for row in rows}
    assert "fine" in words and not words & {"WRITTEN", "MOVED", "LINKED", "REMOVED", "OPENED"}
    assert before == {name: (someone.get_agent_dir("foo") / name).read_bytes() for name in before}
    assert not (someone.get_agent_dir("foo") / "exit").exists() and not (someone.get_agent_dir("foo") / "new").exists()


def test_an_agent_can_write_only_to_its_own_directories(someone: Person) -> None:
    root = someone.home.parent
    line = f"""
    for d in / /usr /usr/local/bin /etc /var /var/lib /opt /home /root /srv /mnt "{root}" "{someone.repo}" "$MNGR_WORK_DIR/.."; do
        mkdir -p "$d" 2>/dev/null; echo x > "$d/written-here" && echo "$d"
    done
    for d in "$MNGR_WORK_DIR" "$MNGR_OUTPUT_DIR" "$HOME" /tmp /var/tmp /run /dev/shm; do echo x > "$d/written-here" || echo NOT "$d"; done
    """
    rows = [row for row in someone.tries("foo", line) if "cannot create" not in row]
    own_dirs = {
        str(someone.get_work_dir("foo")),
        str(someone.get_agent_dir("foo") / "outputs"),
        str(someone.get_agent_dir("foo") / "home"),
    }
    assert all(row.startswith("/tmp/") or row == str(root) for row in rows), rows  # The sandbox has its own /tmp.
    written = subprocess.run(
        ["find", str(root), "/usr/local", "/etc", "/tmp/written-here", "/run", "-name", "written-here"],
        capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    assert {os.path.dirname(path) for path in written} == own_dirs


def test_processes_outside_are_hidden_and_cannot_be_killed(someone: Person) -> None:
    victim = subprocess.Popen(["sleep", "1000"], user=someone.uid if os.getuid() == 0 else None)
    try:
        line = f"kill -9 {victim.pid} && echo KILLED; [ -e /proc/{victim.pid}/stat ] && echo SEEN; ls -d /proc/[0-9]* | wc -l"
        rows = someone.tries("foo", line)
        assert not {"KILLED", "SEEN"} & set(rows) and int(rows[-1]) < 8
        assert victim.poll() is None
        assert someone.get_agent("foo")["state"] == "RUNNING"
    finally:
        victim.kill()
        victim.wait()


def test_a_sandboxed_command_has_its_own_process_group(someone: Person) -> None:
    """A signal to a shared group would also reach mngr and the script that called it."""
    result = someone.run_bytes("exec", "foo", "--", "sh", "-c", "kill -9 0", start_new_session=True)
    assert result.returncode == 137  # not -9, which would mean that mngr was killed


def test_keys_of_the_session_cannot_be_requested(someone: Person) -> None:
    argv = someone.argv("exec", "foo", "--", "python3", "-c", KEYS, "get")
    result = subprocess.run(
        [sys.executable, "-c", KEYS, "add", *argv], cwd=someone.repo, env=someone.env, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.stdout == "refused\n", result


def test_the_callers_environment_is_hidden(someone: Person) -> None:
    line = "cat /proc/*/environ | tr '\\0' '\\n' | grep -e hunter -e ^MNGR_AGENT_NAME="
    result = someone("exec", "foo", "--", "sh", "-c", line, env={"TOKEN": SECRET})
    assert set(result.out.splitlines()) == {"MNGR_AGENT_NAME=foo"}


def test_open_files_of_the_caller_are_not_inherited(someone: Person) -> None:
    open_fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    line = f"ls /proc/self/fd/{open_fd}/ | head -3"
    try:
        for agents in (["foo"], ["foo", "twin"]):
            result = someone.run_bytes("--format", "json", "exec", *agents, "--", "sh", "-c", line, pass_fds=(open_fd,))
            assert [row["stdout"] for row in json.loads(result.stdout)["results"]] == [""] * len(agents)
    finally:
        os.close(open_fd)


def test_a_file_on_standard_input_cannot_be_written(someone: Person) -> None:
    source = someone.home.parent / "input.txt"
    source.write_text("as it was")
    os.chown(source, someone.uid, -1)
    with source.open() as file:
        result = someone.run_bytes(
            "exec", "foo", "--", "sh", "-c", "cat; echo x > /proc/self/fd/0; echo x >> /dev/stdin", stdin=file
        )
    assert result.stdout == b"as it was"
    assert source.read_text() == "as it was"


def test_an_agent_cannot_type_into_its_terminal(someone: Person) -> None:
    proof = someone.home.parent / "proof"
    someone("create", "typist", "--sandbox", "--", "python3", "-c", TYPE, f"touch {proof}")
    wait_for(lambda: someone.get_agent("typist")["state"] == "DONE")
    assert "refused 1" in someone("capture", "typist").out
    assert not proof.exists()


def test_a_command_of_exec_cannot_type_into_the_users_terminal(someone: Person, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    program = tmp_path / "try.sh"
    words = someone.argv("exec", "foo", "--", "python3", "-c", TYPE, f"touch {proof}")
    program.write_text(" ".join("'" + word.replace("'", "'\\''") + "'" for word in words))
    with PtyTerminal(["sh", "-i"], someone.repo, {**someone.env, "PS1": "ready> "}) as terminal:
        terminal.wait_for_text("ready> ")
        terminal.type(f". {program}\r")
        terminal.wait_for_text("refused 1")
        terminal.wait_for_text("ready> ")
        terminal.type("echo $((20 + 3))\r")
        terminal.wait_for_text("23")
    assert not proof.exists()
