"""The code that runs on the nodes of a Ray cluster, tested without a cluster."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.providers.ray import host_init_process, work_backup

# Runs as a user who may have two processes, because root has no limit. Modules must be imported before that.
BOOT = """
import __future__, fcntl, json, os, resource, select, signal, socket, struct, sys, termios, warnings
resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
os.setuid(61919)
exec(sys.argv.pop())
"""


def test_replaced_and_dropped_backups_free_their_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_backup, "MAX_TOTAL_BYTES", 1000)

    def put(backup: work_backup.WorkBackup, tag: str, data: bytes) -> bool:
        return backup.write_chunk(tag, "a-1", "work.bundle", data, first=True)

    backup = work_backup.WorkBackup(str(tmp_path / "kept"))
    for _ in range(3):
        assert put(backup, "one", b"x" * 400)  # the upload starts again
    for _ in range(3):
        assert put(backup, "one", b"x" * 400)
        backup.commit_files("one", "a-1", ["work.bundle"])
    assert put(backup, "two", b"x" * 700) and not put(backup, "three", b"x")
    assert not put(work_backup.WorkBackup(str(tmp_path / "kept")), "three", b"x")
    backup.forget_host("two")
    assert put(backup, "three", b"x")


def test_a_host_survives_when_its_node_can_start_no_more_processes() -> None:
    with Room() as host:
        first = host.begin("one", "read line; echo $line")
        second = host.begin("two", "echo two")
        assert "Resource temporarily unavailable" in second.read() and host.hear("two") == 126
        first.write("still here\n")
        assert first.read() == "still here\n" and host.hear("one") == 0
        assert host.begin("three", "echo three").read() == "three\n" and host.hear("three") == 0


class Command:
    """The input and output of a command."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin, self._stdout = stdin, stdout

    def write(self, text: str) -> None:
        os.write(self._stdin, text.encode())

    def read(self) -> str:
        """Close the input and return all output."""
        os.close(self._stdin)
        with open(self._stdout, encoding="utf-8") as stream:
            return stream.read()


class Room:
    """The first process of a host."""

    def __init__(self) -> None:
        self._link, child_socket = socket.socketpair()
        self._said = self._link.makefile()
        python = [sys.executable, "-I", "-S", "-c", BOOT, str(child_socket.fileno()), "mark"]
        program = Path(host_init_process.__file__).read_text()
        self._process = subprocess.Popen([*python, program], pass_fds=[child_socket.fileno()], cwd="/")
        child_socket.close()
        assert "ready" in self._said.readline()

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self._said.close()
        self._link.close()
        assert self._process.wait(10) == 0

    def begin(self, key: str, program: str) -> Command:
        """Start a program."""
        (stdin, own_stdin), (own_stdout, stdout) = os.pipe(), os.pipe()
        request = {"key": key, "argv": ["sh", "-c", program], "env": dict(os.environ), "terminal": False}
        body = json.dumps(request).encode()
        socket.send_fds(self._link, [struct.pack("!I", len(body))], [stdin, stdout, stdout])
        self._link.sendall(body)
        os.close(stdin)
        os.close(stdout)
        assert {"key": key} == {
            name: value for name, value in json.loads(self._said.readline()).items() if name != "pid"
        }
        return Command(own_stdin, own_stdout)

    def hear(self, key: str) -> int:
        """Return the exit code of a command."""
        message = json.loads(self._said.readline())
        assert message["key"] == key
        return int(message["code"])
