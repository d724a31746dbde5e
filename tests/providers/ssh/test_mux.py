"""Commands over ssh's shared connection: by its master's socket where that answers as it should, by ssh where not."""

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
from mngr.providers.ssh import mux
from mngr.providers.ssh.provider import SshWire
from tests.conftest import wait_for
from tests.support.hosts.sshd import Farm

pytestmark = pytest.mark.hosts

HELLO = bytes.fromhex("000000080000000100000004")
OTHER = bytes.fromhex("000000080000000100000005")
OPENED = bytes.fromhex("0000000c800000060000000000000001")
REFUSED = bytes.fromhex("000000108000000300000000000000046e6f7065")


@pytest.fixture
def wire(farm: Farm) -> Iterator[SshWire]:
    wire = SshWire("h1", {"config": str(farm.config)})
    assert remote_host.run(wire, ["true"]).code == 0  # the connection is there
    control = control_of(wire)
    yield wire
    control.unlink(missing_ok=True)


def control_of(wire: SshWire) -> Path:
    return Path(next(word for word in wire.build_argv("true") if word.startswith("ControlPath=")).partition("=")[2])


def master(at: Path, *answers: bytes, hang: bool = False) -> threading.Thread:
    """Something that listens there; it answers what it hears in turn, and then closes, or says no more."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(at))
    listening.listen()

    def play() -> None:
        with listening, listening.accept()[0] as link:
            heard = link.makefile("rb")
            for turn, answer in enumerate(answers):
                size = int.from_bytes(heard.read(4), "big")
                heard.read(size + 3 * turn)  # the second has a byte with each of three streams
                link.sendall(answer)
            while hang and link.recv(65536):
                pass

    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    return thread


def begin(at: Path, timeout: float | None = 10.0) -> mux.SshSession | None:
    return mux.start_command(str(at), "true", (0, 1, 2), timeout)


def test_a_command_needs_no_process_of_ssh(wire: SshWire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    result = remote_host.run(wire, ["sh", "-c", "cat; echo err >&2; exit 7"], stdin=b"\0\xff\n" * 100_000)
    assert (result.code, result.err) == (7, b"err\n")
    assert result.out == b"\0\xff\n" * 100_000


def test_what_the_server_refuses_goes_by_a_connection_of_its_own(wire: SshWire) -> None:
    """Its limit is 100 sessions on one connection."""
    quiet = os.open(os.devnull, os.O_RDWR)
    held: list[mux.SshSession] = []
    try:
        while session := mux.start_command(str(control_of(wire)), "exec sleep 1000", (quiet, quiet, quiet), 10.0):
            held.append(session)
            assert len(held) <= 100
        assert len(held) == 100
        assert remote_host.run(wire, ["echo", "here"]).out == b"here\n"
    finally:
        for session in held:
            session.kill()
        os.close(quiet)


def test_a_socket_that_nobody_answers(wire: SshWire) -> None:
    at = control_of(wire)
    at.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(at))
    assert begin(at) is None
    assert remote_host.run(wire, ["echo", "here"]).out == b"here\n"


def test_a_command_that_is_cut_off_is_not_run_again(farm: Farm, wire: SshWire) -> None:
    count = farm.home("h1") / "count"
    host = RemoteHost("h1", "ssh", wire, str(farm.home("h1")), os.getuid())
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


def test_a_command_that_takes_too_long_is_cut_off(farm: Farm, wire: SshWire) -> None:
    with pytest.raises(Unreachable, match=r"did not answer within 0\.3s"):
        remote_host.run(wire, ["sleep", "1000"], timeout=0.3)
    assert remote_host.run(wire, ["echo", "here"]).out == b"here\n"


def test_a_master_of_another_version_is_not_asked(tmp_path: Path) -> None:
    master(tmp_path / "s", OTHER)
    assert begin(tmp_path / "s") is None


def test_a_refusal_means_it_was_not_started(tmp_path: Path) -> None:
    master(tmp_path / "s", HELLO, REFUSED)
    assert begin(tmp_path / "s") is None


@pytest.mark.parametrize("answers", [(HELLO, b""), (HELLO, OPENED), (HELLO, b"\xff\xff\xff\xff")])
def test_a_master_that_goes_away_may_have_started_it(tmp_path: Path, answers: tuple[bytes, ...]) -> None:
    master(tmp_path / "s", *answers)
    session = begin(tmp_path / "s")
    assert session is not None
    assert session.wait() == 255


def test_a_master_that_says_nothing(tmp_path: Path) -> None:
    master(tmp_path / "s", HELLO, hang=True)
    with pytest.raises(TimeoutError):
        begin(tmp_path / "s", timeout=0.2)
