"""What runs on the nodes of a Ray cluster, where it needs no cluster."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mngr.providers.ray import host_process, work_backup

# As somebody who may have two processes: root may start as many as it likes. What it needs it can load only before.
BOOT = """
import __future__, fcntl, json, os, resource, select, signal, socket, struct, sys, termios, warnings
resource.setrlimit(resource.RLIMIT_NPROC, (2, 2))
os.setuid(61919)
exec(sys.argv.pop())
"""


def test_a_keeper_has_room_again_for_what_was_replaced_or_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_backup, "MAX_TOTAL_BYTES", 1000)

    def put(keeper: work_backup.WorkBackup, tag: str, data: bytes) -> bool:
        return keeper.put(tag, "a-1", "work.bundle", data, first=True)

    keeper = work_backup.WorkBackup(str(tmp_path / "kept"))
    for _ in range(3):
        assert put(keeper, "one", b"x" * 400)  # begun again
    for _ in range(3):
        assert put(keeper, "one", b"x" * 400)
        keeper.done("one", "a-1", ["work.bundle"])
    assert put(keeper, "two", b"x" * 700) and not put(keeper, "three", b"x")
    assert not put(work_backup.WorkBackup(str(tmp_path / "kept")), "three", b"x")
    keeper.drop("two")
    assert put(keeper, "three", b"x")


def test_a_node_that_can_start_no_more_processes_ends_no_host() -> None:
    with Room() as room:
        first = room.begin("one", "read line; echo $line")
        second = room.begin("two", "echo two")
        assert "Resource temporarily unavailable" in second.read() and room.hear("two") == 126
        first.write("still here\n")
        assert first.read() == "still here\n" and room.hear("one") == 0
        assert room.begin("three", "echo three").read() == "three\n" and room.hear("three") == 0


class Command:
    """What a command is given and says."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self._stdin, self._stdout = stdin, stdout

    def write(self, text: str) -> None:
        os.write(self._stdin, text.encode())

    def read(self) -> str:
        """All of it; it gets nothing any more."""
        os.close(self._stdin)
        with open(self._stdout, encoding="utf-8") as stream:
            return stream.read()


class Room:
    """The first process of a host."""

    def __init__(self) -> None:
        self._link, theirs = socket.socketpair()
        self._said = self._link.makefile()
        python = [sys.executable, "-I", "-S", "-c", BOOT, str(theirs.fileno()), "mark"]
        program = Path(host_process.__file__).read_text()
        self._process = subprocess.Popen([*python, program], pass_fds=[theirs.fileno()], cwd="/")
        theirs.close()
        assert "ready" in self._said.readline()

    def __enter__(self) -> Room:
        return self

    def __exit__(self, *_: object) -> None:
        self._said.close()
        self._link.close()
        assert self._process.wait(10) == 0

    def begin(self, key: str, program: str) -> Command:
        """Ask for a program."""
        (stdin, ours), (theirs, stdout) = os.pipe(), os.pipe()
        words = {"key": key, "argv": ["sh", "-c", program], "env": dict(os.environ), "terminal": False}
        body = json.dumps(words).encode()
        socket.send_fds(self._link, [struct.pack("!I", len(body))], [stdin, stdout, stdout])
        self._link.sendall(body)
        os.close(stdin)
        os.close(stdout)
        assert {"key": key} == {k: v for k, v in json.loads(self._said.readline()).items() if k != "pid"}
        return Command(ours, theirs)

    def hear(self, key: str) -> int:
        """How it has ended."""
        said = json.loads(self._said.readline())
        assert said["key"] == key
        return int(said["code"])
