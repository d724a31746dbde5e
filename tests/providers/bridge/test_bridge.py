"""The process that keeps an engine's library loaded: commands, terminals and calls through it."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mngr.base import shell
from mngr.base.errors import EngineBusy, HostGone, HostStopped, MngrError, NotFound, Unreachable
from mngr.base.paths import Home
from mngr.base.untrusted_json import get_int
from mngr.host import remote_host
from mngr.host.remote_host import RemoteHost
from mngr.providers.bridge.connection import Bridge, BridgeTransport, EngineModule
from mngr.testkit.contract.pty_terminal import PtyTerminal
from tests.conftest import wait_for
from tests.support.paths import ROOT

ENGINE = EngineModule(name=str(ROOT / "tests/support/hosts/process_engine.py"))


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    new_bridge = Bridge("lib", Home(str(tmp_path / "home")), ENGINE, {}, linger=30.0)
    yield new_bridge
    if os.path.exists(new_bridge.path):
        os.kill(get_pid(new_bridge), signal.SIGKILL)
    for path in Path(new_bridge.path).parent.glob(Path(new_bridge.path).name + "*"):
        path.unlink()


@pytest.fixture
def transport(bridge: Bridge, tmp_path: Path) -> BridgeTransport:
    return BridgeTransport(bridge, "box", {"dir": str(tmp_path)})


def get_pid(bridge: Bridge) -> int:
    return get_int(bridge.call("echo"), "pid")


def test_streams_are_binary_and_separate_and_the_exit_code_is_returned(
    transport: BridgeTransport, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 1000
    script = "cat; printf 'b\\351d' >&2; pwd >&2; exit 7"
    result = remote_host.run(transport, ["sh", "-c", script], stdin=data)
    assert (result.code, result.out) == (7, data)
    assert result.err == b"b\xe9d" + os.fsencode(tmp_path) + b"\n"
    assert remote_host.run(transport, ["printf", "%s", "n\udce9 ï 'x'\n"]).out == b"n\xe9 \xc3\xaf 'x'\n"
    host = RemoteHost("box", "lib", transport, str(tmp_path), os.getuid())
    with host.stream(["sh", "-c", "cat; exit 3"], stdin=shell.PIPE, stdout=shell.PIPE) as process:
        assert process.communicate(data)[0] == data and process.returncode == 3


def test_only_replaces_the_whole_environment(transport: BridgeTransport) -> None:
    argv = transport.build_argv('printf "%s|" "$A" "${HOME-none}"', only=["A=x\udce9 'y'\n", "PATH=/usr/bin:/bin"])
    result = shell.run(argv, start=transport.start_command)
    assert result.out == b"x\xe9 'y'\n|none|"
    assert subprocess.run(argv, capture_output=True, check=True).stdout == result.out


def test_the_client_program_imports_little_and_behaves_the_same(transport: BridgeTransport) -> None:
    argv = transport.build_argv("cat; echo no >&2; kill -9 $$")
    result = subprocess.run(argv, input=b"in", capture_output=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (137, b"in", b"no\n")
    import_log = subprocess.run(
        [*argv[:3], "-X", "importtime", argv[3], argv[4], argv[5], "true"], capture_output=True, check=True
    ).stderr.decode()
    assert "socket" not in [line.split("|")[-1].strip() for line in import_log.splitlines()]


def test_large_output_is_complete_and_not_buffered_in_memory(transport: BridgeTransport, bridge: Bridge) -> None:
    process = subprocess.Popen(transport.build_argv("exec cat /dev/zero"), stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1 << 20)
    before = get_memory_size(get_pid(bridge))
    growth = [get_memory_size(get_pid(bridge)) - before for _ in range(300)]
    assert max(growth) < 8192
    process.stdout.close()
    assert process.wait(10) == 141
    assert len(remote_host.run(transport, ["head", "-c", "30000000", "/dev/zero"]).out) == 30_000_000


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # ProcessLookupError when it ended during the read
        return True


def get_memory_size(pid: int) -> int:
    """Return the kilobytes of memory that a process uses."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


def test_a_hundred_commands_run_at_once_despite_a_low_open_file_limit(
    transport: BridgeTransport, bridge: Bridge
) -> None:
    with limit_open_files(64):
        get_pid(bridge)  # starts the process
    assert sorted(run_concurrently(transport, 100)) == list(range(100))
    wait_for(lambda: len(os.listdir(f"/proc/{get_pid(bridge)}/fd")) < 20)


def test_the_process_survives_when_it_can_open_no_more_files(transport: BridgeTransport, bridge: Bridge) -> None:
    pid = get_pid(bridge)
    soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (40, hard))
    answers = run_concurrently(transport, 50)
    assert len(answers) == 50 and all(isinstance(answer, int | Unreachable) for answer in answers)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert sorted(run_concurrently(transport, 3)) == [0, 1, 2]


def run_concurrently(transport: BridgeTransport, number: int) -> list[Any]:
    """Run this many commands at once and return the output or error of each."""
    answers: list[Any] = []

    def run_one(index: int) -> None:
        try:
            answers.append(int(remote_host.run(transport, ["sh", "-c", f"sleep 0.3; echo {index}"]).out))
        except MngrError as error:
            answers.append(error)

    threads = [threading.Thread(target=run_one, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@contextmanager
def limit_open_files(number: int) -> Iterator[None]:
    """Limit the open files of processes that are started in the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_command_ends_when_its_client_goes_away(transport: BridgeTransport, tmp_path: Path) -> None:
    process = subprocess.Popen(transport.build_argv("echo $$ >pid; exec sleep 1000"))
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    wait_for(lambda: has_ended(pid))
    with pytest.raises(Unreachable, match="did not answer within"):
        remote_host.run(transport, ["sh", "-c", "echo $$ >pid2; exec sleep 1000"], timeout=0.3)
    pid = int((tmp_path / "pid2").read_text())
    wait_for(lambda: has_ended(pid))


def test_a_terminal_follows_the_size_of_the_users_terminal(transport: BridgeTransport, tmp_path: Path) -> None:
    argv = transport.build_argv(
        "trap 'stty size' WINCH; stty size; tty -s && echo tty; until read x; do :; done; echo \"got $x\"; until read y; do :; done; exit 5",
        terminal=True,
    )
    with PtyTerminal(argv, tmp_path, dict(os.environ), rows=30, columns=100) as terminal:
        terminal.wait_for_text("30 100")
        terminal.wait_for_text("tty")
        terminal.resize(40, 120)
        terminal.wait_for_text("40 120")
        terminal.type("hé", "\r")
        terminal.wait_for_text("got hé")
        terminal.type("\r")
        assert terminal.wait_for_exit() == 5
    with PtyTerminal(
        BridgeTransport(transport._bridge, "box", {"dir": "/no"}).build_argv("x", terminal=True), tmp_path, {}
    ) as failing_terminal:
        failing_terminal.wait_for_text("Error: there is no /no")
        assert failing_terminal.wait_for_exit() == 255


def test_a_resize_before_the_command_runs_or_after_a_failed_try_is_applied(
    transport: BridgeTransport, tmp_path: Path
) -> None:
    script = "trap 'stty size' WINCH; echo on; stty size; until read x; do :; done; exit 5"
    (tmp_path / "wait").touch()
    with PtyTerminal(transport.build_argv(script, terminal=True), tmp_path, dict(os.environ)) as terminal:
        wait_for(lambda: handles_winch(terminal.process.pid))
        terminal.resize(40, 120)
        (tmp_path / "wait").unlink()
        terminal.wait_for_text("on")
        terminal.wait_for_text("40 120")
        terminal.resize(41, 111)
        terminal.wait_for_text("41 111")
        terminal.type("\r")
        assert terminal.wait_for_exit() == 5


def handles_winch(pid: int) -> bool:
    """True when a process has a handler for changes of its terminal's size."""
    match = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(match and int(match[1], 16) >> (signal.SIGWINCH - 1) & 1)


def test_a_closed_terminal_ends_its_command(transport: BridgeTransport, tmp_path: Path) -> None:
    with PtyTerminal(
        transport.build_argv("echo $$ >pid; echo on; exec sleep 1000", terminal=True), tmp_path, {}
    ) as terminal:
        terminal.wait_for_text("on")
        pid = int((tmp_path / "pid").read_text())
        terminal.process.terminate()
        assert terminal.wait_for_exit() == 255
    wait_for(lambda: has_ended(pid))


def test_a_call_returns_an_answer_or_raises_an_error_of_its_kind(bridge: Bridge) -> None:
    notes: list[str] = []
    assert bridge.call("echo", note=notes.append, a=[1], b="é")["words"] == {"a": [1], "b": "é"}
    assert notes == ["a note"]
    for kind, error in (
        ("busy", EngineBusy),
        ("unreachable", Unreachable),
        ("not_found", NotFound),
        ("gone", HostGone),
    ):
        with pytest.raises(error, match=f"it is {kind}"):
            bridge.call("refuse", kind=kind, host="box")
    with pytest.raises(MngrError, match="ZeroDivisionError: by zero"):
        bridge.call("crash")


def test_a_command_on_a_lost_machine_raises_host_gone(bridge: Bridge) -> None:
    with pytest.raises(HostGone, match="the host box is gone: there is no /no"):
        remote_host.run(BridgeTransport(bridge, "box", {"dir": "/no"}), ["true"])


def test_a_result_that_the_client_did_not_save_is_undone(bridge: Bridge, tmp_path: Path) -> None:
    bridge.call("make", keep=lambda answer: None, path=str(tmp_path / "kept"))

    def fail(answer: dict[str, object]) -> None:
        assert (tmp_path / "lost").exists()
        raise MngrError("the disk is full")

    with pytest.raises(MngrError, match="the disk is full"):
        bridge.call("make", keep=fail, path=str(tmp_path / "lost"))
    wait_for(lambda: not (tmp_path / "lost").exists())
    assert (tmp_path / "kept").exists()


def test_a_call_is_cancelled_when_its_client_goes_away(bridge: Bridge, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="lib did not answer within"):
        bridge.call("sleep", path=str(tmp_path / "ended"), timeout=0.5)
    wait_for((tmp_path / "ended").exists)


def test_after_the_process_is_killed_the_next_command_starts_another(
    bridge: Bridge, transport: BridgeTransport
) -> None:
    first = get_pid(bridge)
    with subprocess.Popen(transport.build_argv("echo on; exec sleep 1000"), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        os.kill(first, signal.SIGKILL)
        assert process.wait(10) == 255
    assert remote_host.run(transport, ["echo", "again"]).out == b"again\n"
    assert get_pid(bridge) != first


def test_concurrent_clients_start_one_process_which_ends_when_unused(tmp_path: Path) -> None:
    bridges = [Bridge("lib", Home(str(tmp_path)), ENGINE, {}, linger=0.3) for _ in range(8)]
    pids: set[int] = set()
    threads = [
        threading.Thread(target=lambda client_bridge=client_bridge: pids.add(get_pid(client_bridge)))
        for client_bridge in bridges
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pids) == 1
    wait_for(lambda: not os.path.exists(bridges[0].path))
    (pid,) = pids
    wait_for(lambda: has_ended(pid))


def test_a_missing_library_or_python_is_reported(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    engine = ENGINE.replace(hints={"missing": "install it"})
    with pytest.raises(MngrError, match=f"{sys.executable} cannot load lib: No module named 'nowhere'") as caught:
        Bridge("lib", home, engine, {"broken": True}).call("echo")
    assert caught.value.hint == "install it"
    with pytest.raises(MngrError, match="/no/python is not installed"):
        Bridge("lib", home, ENGINE, {}, python="/no/python").call("echo")
    with pytest.raises(MngrError, match="/bin/false cannot run the helper process for lib: it gave no reason"):
        Bridge("lib", home, ENGINE, {}, python="/bin/false").call("echo")


def test_another_python_or_variable_uses_another_process(
    bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(str(tmp_path / "home"))
    engine = ENGINE.replace(variables=("LIB_",))

    def path(python: str | None = None) -> str:
        return Bridge("lib", home, engine, {}, linger=30.0, python=python).path

    before = path()
    assert path() == before != path(python="/other")
    monkeypatch.setenv("LIB_TOKEN", "x")
    assert path() != before


def test_a_program_cannot_forge_the_message_that_its_machine_is_gone(transport: BridgeTransport) -> None:
    """The program kills the shell that would report its exit code, so its own output comes last."""
    for kind in ("gone", "stopped"):
        with pytest.raises(Unreachable) as caught:
            remote_host.run(transport, ["sh", "-c", f"echo 'mngr-bridge {kind}: x' >&2; kill -9 $$", "sh"])
        assert not isinstance(caught.value, HostGone | HostStopped)
