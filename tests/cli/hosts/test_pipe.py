"""Tests `mngr pipe` with the real ssh, scp, sftp and rsync, on local and remote agents, without a listening sshd."""

from __future__ import annotations

import http.server
import json
import os
import pwd
import shlex
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mngr.host import scripts
from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import BIN_DIR, IS_FULL_SCALE, MngrProgram, wait_for
from tests.providers.docker.test_contract import settings
from tests.support.hosts.engines import Docker
from tests.support.hosts.sshd import Farm
from tests.support.repos import read_tree

pytestmark = pytest.mark.hosts

RUN = ("--", "sleep", "1000")


# Serves a page on one port, reads a page from another, and writes to a socket in its current directory.
PARTNER = """
import http.server, socket, sys, threading, urllib.request
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a page there")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://127.0.0.1:" + sys.argv[2]).read().decode(), flush=True)
connection = socket.socket(socket.AF_UNIX)
connection.connect("socket")
connection.sendall(b"hello")
sys.stdin.read()
"""


@dataclass
class Wired:
    """An agent `foo`, and ssh with the entries of `mngr ssh-config`."""

    mngr: MngrProgram
    host: str
    user: str
    place: str  # the user's home directory on the host
    disk: Path  # the same directory, as seen from this machine
    name: str  # the agent's work dir, as the agent sees it

    @property
    def home(self) -> Path:
        """mngr's home on the host, as seen from this machine."""
        return self.work.parents[1]

    @property
    def work(self) -> Path:
        """The agent's work dir, as seen from this machine."""
        return Path(os.path.normpath(self.disk / os.path.relpath(self.name, self.place)))

    @property
    def flags(self) -> list[str]:
        return ["-F", str(self.mngr.home / "ssh/config")]

    @property
    def known(self) -> Path:
        """The file with the host's key."""
        host, _, provider = self.host.partition(".")
        return self.mngr.home / "hosts" / provider / f"{host}.known_hosts"

    def run(self, *argv: str, data: bytes = b"", code: int = 0) -> str:
        """Run a program that must end with this code, and return its output."""
        result = subprocess.run(
            argv,
            input=data,
            capture_output=True,
            cwd=self.mngr.repo,
            env=self.mngr.env,
            timeout=60,
            check=False,
        )
        assert result.returncode == code, (
            f"{argv}: exit {result.returncode}\n{result.stdout!r}\n{result.stderr.decode()}"
        )
        return (result.stdout + result.stderr).decode()

    def ssh(self, *words: str, data: bytes = b"", code: int = 0) -> str:
        return self.run("ssh", *self.flags, *words, data=data, code=code)

    def alone(self, *words: str, code: int = 0) -> str:
        """Run ssh over its own connection."""
        return self.ssh("-o", "ControlPath=none", *words, code=code)


def end_connections(mngr: MngrProgram) -> None:
    for control in (mngr.home / "ssh").glob("*.c"):
        argv = ["ssh", "-o", f"ControlPath={control}", "-O", "exit", "any"]
        subprocess.run(argv, capture_output=True, check=False)


@pytest.fixture(params=["local", "ssh", pytest.param("docker", marks=pytest.mark.sampled(2))])
def wired(mngr: MngrProgram, request: pytest.FixtureRequest) -> Iterator[Wired]:
    create_args = ("--env", "GIVEN=a b", *RUN)
    if request.param == "local":
        mngr("create", "foo", *create_args)
        connection = make_local_wired(mngr)
    elif request.param == "ssh":
        farm: Farm = request.getfixturevalue("farm")
        mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
        mngr("create", "foo@h1", *create_args)
        connection = replace(make_local_wired(mngr), host="h1.ssh")
    else:
        engine: Docker = request.getfixturevalue("docker_engine")
        mngr.env.update({**settings("docker"), **engine.env})
        mngr("create", "foo@box.docker", *create_args)
        volume = json.loads((mngr.home / "hosts/docker/box.json").read_text())["volume"]
        disk = engine.dir / engine.volumes / volume / "_data"
        connection = Wired(mngr, "box.docker", "user", "/home/agent", disk, str(mngr.get_work_dir("foo")))
    mngr("ssh-config", "--write")
    yield connection
    end_connections(mngr)


@pytest.fixture
def here(mngr: MngrProgram) -> Iterator[Wired]:
    mngr("create", "foo", *RUN)
    mngr("ssh-config", "--write")
    yield make_local_wired(mngr)
    end_connections(mngr)


def make_local_wired(mngr: MngrProgram) -> Wired:
    user = pwd.getpwuid(os.getuid())
    return Wired(mngr, "local.local", user.pw_name, user.pw_dir, Path(user.pw_dir), str(mngr.get_work_dir("foo")))


def test_a_session_runs_in_the_agents_work_dir_and_environment(wired: Wired) -> None:
    output = wired.ssh("foo.mngr", 'pwd; echo "$GIVEN|$MNGR_AGENT_NAME|$SSH_AUTH_SOCK"; umask; echo oops >&2')
    assert output == f"{wired.name}\na b|foo|\n0022\noops\n"
    data = bytes(range(256)) * 1000
    wired.ssh("foo.mngr", "cat > data", data=data)
    assert (wired.work / "data").read_bytes() == data
    assert wired.ssh("-T", "foo.mngr", data=b"echo from a script; exit 3\n", code=3) == "from a script\n"
    for code in (7, 125, 255):
        assert wired.ssh("foo.mngr", f"exit {code}", code=code) == ""


def test_ssh_opens_a_terminal_that_follows_the_size_of_the_users(wired: Wired) -> None:
    argv = ["ssh", *wired.flags, "-t", "foo.mngr"]
    with PtyTerminal(argv, wired.mngr.repo, wired.mngr.env, rows=33, columns=111) as terminal:
        terminal.type("stty size; pwd; test -t 0 && echo a$((1))b $TERM\r")
        terminal.wait_for_text("33 111")
        terminal.wait_for_text(wired.name)
        terminal.wait_for_text("a1b xterm-256color")
        terminal.resize(20, 90)
        wait_for(lambda: is_answered(terminal, "stty size\r", "20 90"))
        terminal.type("exit 5\r")
        assert terminal.wait_for_exit() == 5


def is_answered(terminal: PtyTerminal, keys: str, answer: str) -> bool:
    terminal.type(keys)
    try:
        return bool(terminal.wait_for_text(answer, timeout=0.5))
    except pytest.fail.Exception:
        return False


def test_rsync_scp_and_sftp_copy_files_both_ways(wired: Wired, tmp_path: Path) -> None:
    source = tmp_path / "tree"
    (source / "a b").mkdir(parents=True)
    (source / "a b" / "it's $x").write_bytes(bytes(range(256)))
    (source / "link").symlink_to("nowhere")
    (source / "big").write_bytes(os.urandom(100_000_000 if IS_FULL_SCALE else 2_000_000))
    shell = shlex.join(["ssh", *wired.flags])
    wired.run("rsync", "-a", "-e", shell, f"{source}/", "foo.mngr:tree/")
    assert read_tree(wired.work / "tree") == read_tree(source)
    wired.run("rsync", "-a", "-e", shell, "foo.mngr:tree/", f"{tmp_path}/back/")
    assert read_tree(tmp_path / "back") == read_tree(source)
    (tmp_path / "one").write_text("one\n")
    for flag in ("-s", "-O"):  # -s uses sftp, -O the older protocol
        wired.run("scp", "-q", flag, *wired.flags, str(tmp_path / "one"), f"foo.mngr:one{flag}")
        assert (wired.work / f"one{flag}").read_text() == "one\n"
    wired.run("scp", "-q", *wired.flags, "foo.mngr:README.md", str(tmp_path))
    assert (tmp_path / "README.md").read_text() == "hello\n"
    output = wired.run("sftp", "-q", *wired.flags, "foo.mngr", data=b"pwd\nrename one-s two\n")
    assert f"Remote working directory: {wired.name}" in output and (wired.work / "two").exists()


@contextmanager
def serve_page(text: bytes) -> Iterator[int]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch_page(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_ports_and_sockets_are_forwarded(wired: Wired, tmp_path: Path) -> None:
    agent_port, local_port, reverse_port, local_socket = (
        find_free_port(),
        find_free_port(),
        find_free_port(),
        tmp_path / "s",
    )
    with serve_page(b"a page here") as port, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(local_socket))
        listener.listen()
        argv = ["ssh", *wired.flags, "-o", "ExitOnForwardFailure=yes", "-L", f"{local_port}:127.0.0.1:{agent_port}"]
        argv += ["-R", f"{reverse_port}:127.0.0.1:{port}", "-R", f"{wired.name}/socket:{local_socket}", "foo.mngr"]
        process = subprocess.Popen(
            [*argv, shlex.join(["python3", "-c", PARTNER, str(agent_port), str(reverse_port)])],
            env=wired.mngr.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdout is not None and process.stdout.readline() == b"a page here\n"
        assert fetch_page(local_port).endswith(b"a page there")
        with listener.accept()[0] as accepted:
            assert accepted.recv(5) == b"hello"
        process.communicate(timeout=10)
        assert process.returncode == 0


def test_ssh_reaches_a_host_without_an_agent(wired: Wired) -> None:
    argv = ["ssh", *wired.flags, "-o", f"ProxyCommand={BIN_DIR}/mngr pipe @{wired.host}"]
    argv += ["-o", f"HostKeyAlias={wired.host}.mngr", "-o", f"UserKnownHostsFile={wired.known}"]
    argv += ["-o", "ControlPath=none", "-l", wired.user, "any.mngr"]
    assert wired.run(*argv, "pwd; echo ${MNGR_AGENT_ID-none}") == f"{wired.place}\nnone\n"


@pytest.mark.parametrize("shell", ["dash", "bash", "busybox sh"])
def test_parallel_creation_makes_only_one_host_key(shell: str, tmp_path: Path) -> None:
    argv = [*shell.split(), "-c", scripts.read_program("pipe.sh"), "pipe.sh", str(tmp_path / "ssh"), "key"]
    processes = [subprocess.Popen(argv, stdout=subprocess.PIPE) for _ in range(6)]
    keys = {process.communicate(timeout=20)[0] for process in processes}
    assert len(keys) == 1 and keys.pop().startswith(b"ssh-ed25519 ")
    assert os.listdir(tmp_path / "ssh") == ["host_key"]
    assert (tmp_path / "ssh/host_key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("wired", ["local", "ssh"], indirect=True)
def test_a_changed_host_key_is_rejected(wired: Wired) -> None:
    wired.alone("foo.mngr", "true")
    key = wired.home / "ssh/host_key"
    owner = key.stat().st_uid
    key.unlink()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    os.chown(key, owner, owner)
    output = wired.alone("foo.mngr", "touch it-ran", code=255)
    assert "HOST IDENTIFICATION HAS CHANGED" in output and str(wired.known) in output
    assert not (wired.work / "it-ran").exists()
    wired.known.unlink()  # The error names this file.
    wired.alone("foo.mngr", "true")


@pytest.mark.parametrize("wired", ["local", "ssh"], indirect=True)
def test_a_missing_host_key_is_created_again(wired: Wired) -> None:
    wired.alone("foo.mngr", "true")
    (wired.home / "ssh/host_key").unlink()
    assert "the ssh key of" in wired.alone("foo.mngr", "true", code=255)
    wired.alone("foo.mngr", "true")


def test_other_keys_and_users_are_rejected(wired: Wired, tmp_path: Path) -> None:
    wired.alone("foo.mngr", "true")
    other_key = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other_key], check=True)
    own_key = wired.mngr.home / "ssh/id_ed25519"
    argv = [
        "ssh",
        "-F",
        "/dev/null",
        "-o",
        f"ProxyCommand={BIN_DIR}/mngr pipe foo",
        "-o",
        "IdentitiesOnly=yes",
    ]
    argv += ["-o", f"HostKeyAlias={wired.host}.mngr", "-o", f"UserKnownHostsFile={wired.known}"]
    argv += ["-o", "BatchMode=yes"]
    for key, user, code in ((own_key, wired.user, 0), (other_key, wired.user, 255), (own_key, "nobody", 255)):
        output = wired.run(*argv, "-i", str(key), "-l", user, "foo", "touch it-ran", code=code)
        assert ("Permission denied (publickey)" in output) is (code == 255)
        assert (wired.work / "it-ran").exists() is (code == 0)
        (wired.work / "it-ran").unlink(missing_ok=True)


@pytest.mark.parametrize("wired", ["local", "ssh"], indirect=True)
def test_two_clients_can_use_one_host(wired: Wired, tmp_path: Path) -> None:
    """Each client has its own key, and neither locks the other one out."""
    wired.alone("foo.mngr", "true")
    other = tmp_path / "ssh"
    (wired.mngr.home / "ssh").rename(other)
    if wired.home == wired.mngr.home:
        wired.home.joinpath("ssh").mkdir()
        (other / "host_key").rename(wired.home / "ssh/host_key")
    wired.mngr("ssh-config", "--write")
    assert (other / "id_ed25519").read_text() != (wired.mngr.home / "ssh/id_ed25519").read_text()
    wired.alone("foo.mngr", "true")
    assert len(list((wired.home / "ssh").glob("client-*"))) == (1 if wired.home == wired.mngr.home else 2)


def test_ssh_shows_why_a_target_cannot_be_reached(wired: Wired, request: pytest.FixtureRequest) -> None:
    """With a shared connection, ssh discards the standard error of its proxy."""
    control = ("-o", "ControlPath=%d/no-such-socket", "-o", "ControlPersist=1")
    wired.ssh("foo.mngr", "true")
    proxy = ("-o", f"ProxyCommand={BIN_DIR}/mngr pipe nobody", *control)
    assert "there is no agent 'nobody' (list the agents: mngr list)" in wired.ssh(*proxy, "foo.mngr", "true", code=255)
    if wired.host == "h1.ssh":
        request.getfixturevalue("farm").cut("h1")
        assert "Received disconnect" in (output := wired.ssh(*control, "foo.mngr", "true", code=255))
        assert "h1 cannot be reached" in output
    if wired.host == "box.docker":
        request.getfixturevalue("docker_engine").run("kill", "box")
        output = wired.ssh(*control, "foo.mngr", "true", code=255)
        assert "the host box is stopped (start it: mngr start @box.docker)" in output


def test_a_lost_connection_ends_the_session(mngr: MngrProgram, farm: Farm) -> None:
    mngr.env["MNGR__PROVIDERS__SSH__CONFIG"] = str(farm.config)
    mngr("create", "foo@h1", *RUN)
    mngr("ssh-config", "--write")
    argv = ["ssh", "-F", str(mngr.home / "ssh/config"), "-o", "ControlPath=none", "foo.mngr", "echo up; cat"]
    process = subprocess.Popen(
        argv, env=mngr.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    farm.cut("h1")
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (255, b"") and b"Corrupted" not in err and b"Bad packet" not in err


def test_sessions_and_file_transfers_run_inside_the_sandbox(mngr: MngrProgram, tmp_path: Path) -> None:
    mngr("create", "foo", "--sandbox", *RUN)
    mngr("ssh-config", "--write")
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    wired = make_local_wired(mngr)
    assert "hunter2" not in wired.alone("foo.mngr", f"cat {secret}", code=1)
    wired.alone("foo.mngr", "echo mine > file; rsync --version >/dev/null")
    assert (wired.work / "file").read_text() == "mine\n"
    downloaded = tmp_path / "got"
    argv = ["sftp", "-q", *wired.flags, "-o", "ControlPath=none", "foo.mngr"]
    assert "not found" in wired.run(*argv, data=f"get {secret} {downloaded}\nget file {downloaded}\n".encode())
    assert downloaded.read_text() == "mine\n"


# (how the machine differs, the error that ssh shows or None)
WORLDS = {
    "no sshd": (
        "mount --bind /dev/null /usr/sbin/sshd",
        "sshd is not installed on local (install openssh-server on local",
    ),
    "no /run/sshd": ("mount -t tmpfs none /run", None),
    "no way to make it": ("mount -t tmpfs -o ro none /run", "sshd does not work on local"),
    "an account without a password": (
        "sed 's/^root:[^:]*/root:!/' /etc/shadow >shadow; mount --bind shadow /etc/shadow",
        None,
    ),
}


@pytest.mark.parametrize("reached", [False, True], ids=["never reached", "reached before"])
@pytest.mark.parametrize("world", WORLDS)
def test_pipe_on_machines_with_different_setups(here: Wired, world: str, reached: bool, tmp_path: Path) -> None:
    if reached:
        here.alone("foo.mngr", "true")
    change, expected = WORLDS[world]
    script = f'cd {tmp_path}; {change}; exec "$@"'
    argv = ["unshare", "-m", "sh", "-ec", script, "sh", "ssh", *here.flags, "-o", "ControlPath=none"]
    output = here.run(*argv, "foo.mngr", "echo fine", code=255 if expected else 0)
    assert expected in output if expected else output == "fine\n"


def test_pipe_in_a_terminal_explains_its_use(here: Wired) -> None:
    with PtyTerminal([str(BIN_DIR / "mngr"), "pipe", "foo"], here.mngr.repo, here.mngr.env) as terminal:
        terminal.wait_for_text("mngr pipe is for ssh")
        assert terminal.wait_for_exit() == 2
    assert here.mngr("pipe", "foo", code=None).out.startswith("SSH-2.0-OpenSSH")
    assert "does not name a host" in here.mngr("pipe", "@.docker", code=2).err
