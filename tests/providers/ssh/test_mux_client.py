"""Commands over ssh's shared connection use the master's socket if it answers correctly, and otherwise ssh."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mngr.base.errors import Unreachable
from mngr.host import remote_host
from mngr.host.remote_host import RemoteHost
from mngr.providers.ssh import mux_client
from mngr.providers.ssh.provider import SshTransport
from tests.conftest import wait_for
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

HELLO = bytes.fromhex("000000080000000100000004")
OTHER = bytes.fromhex("000000080000000100000005")
OPENED = bytes.fromhex("0000000c800000060000000000000001")
REFUSED = bytes.fromhex("000000108000000300000000000000046e6f7065")


@pytest.fixture
def transport(farm: Farm) -> Iterator[SshTransport]:
    transport = SshTransport("h1", {"config": str(farm.config)})
    assert remote_host.run(transport, ["true"]).code == 0  # opens the connection
    control = get_control_path(transport)
    yield transport
    control.unlink(missing_ok=True)


def get_control_path(transport: SshTransport) -> Path:
    return Path(
        next(word for word in transport.build_argv("true") if word.startswith("ControlPath=")).partition("=")[2]
    )


def start_fake_master(path: Path, *answers: bytes, hang: bool = False) -> threading.Thread:
    """Listen on a socket, answer each request in turn, and then close the connection or stay silent."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        with listener, listener.accept()[0] as link:
            reader = link.makefile("rb")
            for number, answer in enumerate(answers):
                size = int.from_bytes(reader.read(4), "big")
                reader.read(size + 3 * number)  # the second request comes with three bytes, one for each stream
                link.sendall(answer)
            while hang and link.recv(65536):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def start_true(path: Path, timeout: float | None = 10.0) -> mux_client.SshSession | None:
    return mux_client.start_command(str(path), "true", (0, 1, 2), timeout)


def test_a_command_runs_without_an_ssh_process(transport: SshTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = remote_host.run(transport, ["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"\0\xff\n" * 100_000)
    assert (result.code, result.err) == (7, b"err\n")
    assert result.out == b"\0\xff\n" * 100_000


def test_a_session_above_the_servers_limit_uses_its_own_connection(transport: SshTransport) -> None:
    """The server allows 100 sessions on one connection."""
    null_fd = os.open(os.devnull, os.O_RDWR)
    sessions: list[mux_client.SshSession] = []
    try:
        while session := mux_client.start_command(
            str(get_control_path(transport)), "exec sleep 1000", (null_fd, null_fd, null_fd), 10.0
        ):
            sessions.append(session)
            assert len(sessions) <= 100
        assert len(sessions) == 100
        assert remote_host.run(transport, ["echo", "here"]).out == b"here\n"
    finally:
        for session in sessions:
            session.kill()
        os.close(null_fd)


def test_a_stale_master_socket_is_replaced(transport: SshTransport) -> None:
    path = get_control_path(transport)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert start_true(path) is None
    assert remote_host.run(transport, ["echo", "here"]).out == b"here\n"


def test_an_interrupted_command_is_not_run_again(farm: Farm, transport: SshTransport) -> None:
    count = farm.home("h1") / "count"
    host = RemoteHost("h1", "ssh", transport, str(farm.home("h1")), os.getuid())
    failed: list[Exception] = []

    def call() -> None:
        try:
            host.run(["sh", "-c", 'echo x >>"$1"; exec sleep 1000', "count", str(count)])
        except Unreachable as error:
            failed.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    wait_for(count.exists)
    farm.cut("h1")
    caller.join(30)
    assert failed
    assert count.read_text() == "x\n"


def test_a_command_that_takes_too_long_raises_unreachable(farm: Farm, transport: SshTransport) -> None:
    with pytest.raises(Unreachable, match=r"did not answer within 0\.3s"):
        remote_host.run(transport, ["sleep", "1000"], timeout=0.3)
    assert remote_host.run(transport, ["echo", "here"]).out == b"here\n"


def test_a_master_with_another_protocol_version_is_not_used(tmp_path: Path) -> None:
    start_fake_master(tmp_path / "s", OTHER)
    assert start_true(tmp_path / "s") is None


def test_a_rejected_session_means_that_the_command_was_not_started(tmp_path: Path) -> None:
    start_fake_master(tmp_path / "s", HELLO, REFUSED)
    assert start_true(tmp_path / "s") is None


@pytest.mark.parametrize("answers", [(HELLO, b""), (HELLO, OPENED), (HELLO, b"\xff\xff\xff\xff")])
def test_a_lost_master_counts_as_a_started_command_with_exit_code_255(
    tmp_path: Path, answers: tuple[bytes, ...]
) -> None:
    start_fake_master(tmp_path / "s", *answers)
    session = start_true(tmp_path / "s")
    assert session is not None
    assert session.wait() == 255


def test_a_silent_master_raises_timeout_error(tmp_path: Path) -> None:
    start_fake_master(tmp_path / "s", HELLO, hang=True)
    with pytest.raises(TimeoutError):
        start_true(tmp_path / "s", timeout=0.2)
