"""A batched host runs commands in order, checks their results, and stops at the first failure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from mngr.base.errors import MngrError, NotFound, Unreachable
from mngr.base.shell import ProcessResult
from mngr.host.batched_host import BatchedHost, run_deferred
from mngr.host.remote_host import RemoteHost


class Here:
    """A transport to this machine that records the programs it runs."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        self.calls.append(["sh", "-c", program])
        return self.calls[-1]

    def make_lost_error(self, stderr: str) -> Unreachable:
        return Unreachable(f"lost: {stderr}")

    def close(self) -> None:
        pass


@pytest.fixture
def transport() -> Here:
    return Here()


@pytest.fixture
def host(transport: Here, tmp_path: Path) -> BatchedHost:
    return BatchedHost(RemoteHost("box", "here", transport, str(tmp_path), os.getuid()))


def raise_on_failure(result: ProcessResult) -> None:
    if result.code:
        raise MngrError(f"exit {result.code}: {result.error_line}")


def test_deferred_commands_and_writes_run_with_the_next_command(
    host: BatchedHost, transport: Here, tmp_path: Path
) -> None:
    results: list[ProcessResult] = []
    text = "'ü \\n$x\n\n"
    run_deferred(host, ["sh", "-c", 'cat >"$1"; echo out; echo err >&2', "x", str(tmp_path / "a")], results.append, stdin=text.encode())  # fmt: skip
    host.write(str(tmp_path / "b"), text.encode())
    host.write(str(tmp_path / "c"), b"", 0o755)
    assert not transport.calls
    result = host.run(["sh", "-c", 'cat "$1"; exit 3', "x", str(tmp_path / "a")])
    assert len(transport.calls) == 1
    assert (result.code, result.out.decode()) == (3, text)
    assert (results[0].code, results[0].out, results[0].err) == (0, b"out\n", b"err\n")
    assert (tmp_path / "b").read_text() == text and (tmp_path / "c").read_bytes() == b""
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "bc"] == [0o600, 0o755]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]


def test_nothing_runs_after_a_failed_command(host: BatchedHost, tmp_path: Path) -> None:
    run_deferred(host, ["sh", "-c", "echo why >&2; exit 7"], raise_on_failure)
    host.write(str(tmp_path / "a"), b"x")
    with pytest.raises(MngrError, match="exit 7: why"):
        host.flush()
    assert not (tmp_path / "a").exists()
    host.write(str(tmp_path / "no" / "a"), b"x")
    with pytest.raises(MngrError, match="cannot write"):
        host.run(["true"])


def test_a_lost_connection_raises_unreachable(host: BatchedHost) -> None:
    run_deferred(host, ["true"], raise_on_failure)
    with pytest.raises(Unreachable):
        host.run(["sh", "-c", "kill -9 $$", "x", "y"])  # all commands share this shell


def test_written_data_does_not_appear_in_command_arguments(host: BatchedHost, transport: Here, tmp_path: Path) -> None:
    host.write(str(tmp_path / "env"), b"KEY=hunter2")
    host.flush()
    assert not any("hunter2" in word for call in transport.calls for word in call)


def test_reading_in_a_new_directory_finds_only_written_files(
    host: BatchedHost, transport: Here, tmp_path: Path
) -> None:
    host.new_dir = str(tmp_path)
    with pytest.raises(NotFound):
        host.read(str(tmp_path / "a"))
    assert not transport.calls
    host.write(str(tmp_path / "a"), b"x")
    assert host.read(str(tmp_path / "a")) == b"x"


def test_binary_and_large_files_are_written_separately(host: BatchedHost, tmp_path: Path) -> None:
    large = os.urandom(100_000)
    host.write(str(tmp_path / "a"), b"first")
    host.write(str(tmp_path / "b"), large)
    host.write(str(tmp_path / "c"), b"y" * 200_000)
    host.flush()
    assert (tmp_path / "a").read_bytes() == b"first" and (tmp_path / "b").read_bytes() == large
    assert (tmp_path / "c").read_bytes() == b"y" * 200_000
