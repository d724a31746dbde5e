"""Tests the sandbox itself: the visible files, the seccomp filter, and `open_sandboxed_host`."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mngr.agents.context import Context
from mngr.agents.create import planning
from mngr.agents.create.spec import AgentSpec
from mngr.agents.inspect import find
from mngr.agents.sandbox import bubblewrap, seccomp, visible_files
from mngr.base.errors import MngrError, NotFound, Unreachable, UsageError
from mngr.base.model import AgentRecord
from mngr.base.paths import Home
from mngr.host.remote_host import RemoteHost
from tests.conftest import MngrProgram


@pytest.fixture
def foo(mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Context, AgentRecord]]:
    """A sandboxed agent, and a context for this process."""
    mngr("create", "foo", "--sandbox", "--network", "on", "--", "sleep", "1000")
    ctx = Context(str(mngr.home), cwd=str(mngr.repo))
    yield ctx, find.get_agent(ctx, "foo")[1]


def test_a_sandboxed_host_has_the_agents_view_of_the_machine(foo: tuple[Context, AgentRecord], tmp_path: Path) -> None:
    ctx, record = foo
    sandboxed = bubblewrap.open_sandboxed_host(ctx.local_host, record)
    assert sandboxed.run(["git", "-C", record.work_dir, "log", "--format=%s"]).text == "first"
    assert sandboxed.run(["sh", "-c", "cat; exit 3"], stdin=b"x" * 100_000).code == 3
    assert sandboxed.run(["ls", str(tmp_path / "user")]).code == 2
    assert (
        sandboxed.run(["grep", "-c", ":", "/proc/net/dev"]).text == "1"
    )  # This holds although the agent has a network.
    assert sandboxed.read(os.path.join(record.work_dir, "README.md")) == b"hello\n"
    sandboxed.write(os.path.join(record.work_dir, "new"), b"x")
    assert Path(record.work_dir, "new").read_text() == "x"
    with pytest.raises(NotFound):
        sandboxed.read(str(tmp_path / "user" / ".gitconfig"))
    sandboxed.write(str(tmp_path / "made"), b"x")  # The sandbox has its own /tmp.
    assert not (tmp_path / "made").exists()
    with pytest.raises(MngrError):
        sandboxed.write(os.path.join(ctx.home.agent_dir(record.id), "agent.json"), b"x")


def test_a_sandboxed_host_has_nothing_of_this_environment(
    foo: tuple[Context, AgentRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    ctx, record = foo
    sandboxed = bubblewrap.open_sandboxed_host(Context(str(ctx.home.root)).local_host, record)
    assert sandboxed.run(["sh", "-c", "cat /proc/*/environ | grep -c hunter2"]).text == "0"


def test_the_sandboxed_host_of_an_agent_without_sandbox_is_the_host_itself(mngr: MngrProgram) -> None:
    for name, words in (("bar", []), ("net", ["--network", "off"])):
        mngr("create", name, *words, "--", "sleep", "1000")
        host, record = find.get_agent(Context(str(mngr.home)), name)
        assert bubblewrap.open_sandboxed_host(host, record) is host


def test_a_missing_sandbox_file_is_an_error(foo: tuple[Context, AgentRecord]) -> None:
    ctx, record = foo
    directory = Path(ctx.home.agent_dir(record.id))
    (directory / "sandbox").unlink()
    with pytest.raises(Unreachable, match="could not enter the sandbox"):
        bubblewrap.open_sandboxed_host(ctx.local_host, record).run(["true"])
    (directory / "env").unlink()  # Without its env file, the agent has never run.
    assert bubblewrap.open_sandboxed_host(ctx.local_host, record) is ctx.local_host


def test_sandbox_and_network_are_rejected_on_other_hosts(mngr: MngrProgram) -> None:
    class Nowhere:
        def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
            return ["false"]

        def make_lost_error(self, stderr: str) -> Unreachable:
            return Unreachable(stderr)

        def close(self) -> None:
            pass

    ctx = Context(str(mngr.home))
    box = RemoteHost("box", "ssh", Nowhere(), "/nowhere", 0)
    with pytest.raises(MngrError, match="--sandbox does not work on ssh hosts"):
        planning.resolve_network(ctx, box, AgentSpec(kind="command", sandbox=True))
    with pytest.raises(MngrError, match="--network does not work on ssh hosts"):
        planning.resolve_network(ctx, box, AgentSpec(kind="command", network="off"))
    assert planning.resolve_network(ctx, box, AgentSpec(kind="command")).network == "on"
    with pytest.raises(UsageError):
        planning.resolve_network(ctx, ctx.local_host, AgentSpec(kind="command", network="maybe"))


def test_a_sandboxed_kind_with_a_model_reaches_only_its_address(
    mngr: MngrProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = Context(str(mngr.home))
    assert planning.resolve_network(ctx, ctx.local_host, AgentSpec(kind="command", sandbox=True)).network == "off"
    monkeypatch.setattr(
        ctx.get_kind("command"), "list_model_addresses", lambda variables: ("api.example.com:443",), raising=False
    )
    assert planning.resolve_network(ctx, ctx.local_host, AgentSpec(kind="command", sandbox=True)).network == (
        "allow=api.example.com:443"
    )
    assert planning.resolve_network(ctx, ctx.local_host, AgentSpec(kind="command")).network == "on"
    spec = AgentSpec(kind="command", sandbox=True, network="off")
    assert planning.resolve_network(ctx, ctx.local_host, spec).network == "off"


def write_program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_programs_on_the_path_are_visible_with_their_libraries_but_not_with_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = tmp_path / "user"
    monkeypatch.setenv("HOME", str(user))
    home = Home(str(user / ".mngr"))
    write_program(tmp_path / "node" / "bin" / "node")
    (tmp_path / "node" / "lib").mkdir()
    (tmp_path / "node" / ".env").write_text("PASSWORD=x\n")
    (tmp_path / "node" / "src").mkdir()  # of a project, not of Go
    write_program(user / ".cargo" / "bin" / "cargo")  # The directory above it holds credentials.
    write_program(user / ".local" / "share" / "thing" / "1.0")
    (user / ".local" / "bin").mkdir()
    (user / ".local" / "bin" / "thing").symlink_to(user / ".local" / "share" / "thing" / "1.0")
    (user / ".local" / "lib").mkdir()
    write_program(user / ".mngr" / "work" / "other" / "bin" / "x")
    (user / ".mngr" / "work" / "other" / "bin" / "y").symlink_to(write_program(user / ".ssh" / "id_rsa"))
    lone_program = write_program(tmp_path / "lone")
    folders = [tmp_path / "node" / "bin", user / ".cargo" / "bin", user / ".local" / "bin", user, tmp_path,
               user / ".mngr" / "work" / "other" / "bin", Path("/usr/bin"), Path("gone"), tmp_path / "gone"]  # fmt: skip
    paths = visible_files.list_program_paths(home, ":".join(str(folder) for folder in folders), str(lone_program))
    visible = [path for path in paths if path.startswith(str(tmp_path))]
    assert sorted(visible) == sorted(
        str(path)
        for path in (
            tmp_path / "node" / "bin",
            tmp_path / "node" / "lib",
            user / ".cargo" / "bin",
            user / ".local" / "bin",
            user / ".local" / "share" / "thing" / "1.0",
            lone_program,
        )
    )


def test_private_directories_among_system_files_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_files, "SYSTEM_DIRS", ("/usr", "/etc", str(tmp_path)))
    for name in ("user", "home", "source"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    home = Home(str(tmp_path / "home"))
    record = AgentRecord(
        id="a-000000000000", name="foo", kind="command", phase="ready", project="p", created_at="",
        source=str(tmp_path / "source"), work_dir=str(tmp_path / "home" / "work" / "foo"), transfer="mirror",
    )  # fmt: skip
    args = visible_files.build_sandbox_args(home, record, [], [], [])
    pairs = list(itertools.pairwise(args))
    for name in ("user", "home", "source"):
        assert ("--tmpfs", str(tmp_path / name)) in pairs
    assert ("--tmpfs", "/usr") not in pairs


def test_the_seccomp_filter_rejects_only_the_listed_calls() -> None:
    """This also holds for an ioctl number with high bits set and for the second call table of x86-64."""
    program = """
import ctypes, fcntl, os, pty, termios
call = ctypes.CDLL(None, use_errno=True).syscall
ioctl = {"x86_64": 16}.get(os.uname().machine, 29)
main, end = pty.openpty()
print(os.isatty(end), termios.tcgetattr(end)[6] is not None)
for number, request in ((ioctl, 0x5412), (ioctl, 0x100005412), (ioctl, 0x541C), (0x40000000 + 514, 0x5412)):
    if number > 1000 and os.uname().machine != "x86_64":
        continue
    print(call(number, end, ctypes.c_ulong(request), b"x"), ctypes.get_errno())
"""
    argv = [
        "bwrap",
        *bubblewrap.ISOLATION_FLAGS,
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--seccomp",
        "0",
    ]
    result = subprocess.run(
        [*argv, "--", "python3", "-c", program],
        input=seccomp.build_filter(),
        capture_output=True,
        check=False,
    )
    first, *rest = result.stdout.decode().splitlines()
    assert first == "True True", result.stderr
    assert len(rest) >= 3 and set(rest) == {"-1 1"}


def test_the_seccomp_filter_allows_only_socket_families_that_a_network_namespace_confines() -> None:
    program = """
import ctypes, socket
for family, kind in ((1, 1), (2, 1), (10, 1), (16, 3), (40, 1), (38, 5), (17, 3)):
    try:
        socket.socket(family, kind).close()
        print(family, "open")
    except OSError as error:
        print(family, error.errno)
socket.socketpair()
print(ctypes.CDLL(None, use_errno=True).syscall(425, 1, 0), ctypes.get_errno())
"""
    argv = ["bwrap", "--dev-bind", "/", "/", "--seccomp", "0", "--", sys.executable, "-c", program]
    result = subprocess.run(argv, input=seccomp.build_filter(), capture_output=True, check=False)
    rows = result.stdout.decode().splitlines()
    assert rows == ["1 open", "2 open", "10 open", "16 open", "40 97", "38 97", "17 97", "-1 38"], result.stderr
