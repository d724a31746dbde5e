"""What every fixture stands on: a number no other process has, a directory, programs, and an end to all of it."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

# The signal comes when the thread ends that started the server, so it is one that lives as long as we do.
STARTER = ThreadPoolExecutor(1)
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


class Place:
    """A directory outside /tmp and a number from 1 to 250, both ours until `close`."""

    def __init__(self, kind: str, under: str = "/var/tmp") -> None:
        self.number, self._claim = _claim()
        self.dir = Path(tempfile.mkdtemp(prefix=f"mngr-{kind}-", dir=under))

    def close(self) -> None:
        """End what still works in the directory, unmount and remove it, and give the number back."""
        while pids := naming(self.dir):
            for pid in pids:
                kill(pid)
        for point in reversed(mounts(self.dir)):
            subprocess.run(["umount", "-l", point], capture_output=True, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)
        self._claim.close()


def _claim() -> tuple[int, socket.socket]:
    """The name of an abstract socket has one owner and is free again when that process is gone, however it ended."""
    for number in range(1, 251):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0mngr-tests-{number}")
        except OSError:
            claim.close()
            continue
        return number, claim
    raise RuntimeError("250 sets of hosts are running")


def mounts(where: Path) -> list[str]:
    """Every mount point below a directory, outermost first."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{where}/")]


def naming(where: Path, what: str = "cmdline") -> list[int]:
    """The processes that have a directory in their command line, or in their `environ`."""
    found, mark = [], os.fsencode(where)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/{what}").read_bytes()
        except OSError:
            continue
        if mark in words:
            found.append(int(pid))
    return found


def program(name: str) -> str:
    """Where a program is; sshd must be called by its whole path."""
    found = shutil.which(name, path=PATH)
    if not found:
        raise RuntimeError(f"there is no {name}: `make test-hosts` installs it")
    return found


def start(argv: list[str], log: Path, farewell: str = "TERM") -> subprocess.Popen[bytes]:
    """Start a server that gets a signal when we end, even when we are killed."""
    words = [program("setpriv"), "--pdeathsig", farewell, program(argv[0]), *argv[1:]]
    with log.open("ab") as out:
        return STARTER.submit(_popen, words, out).result()


def _popen(words: list[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={"PATH": PATH})


def wait_until(condition: Callable[[], Any], server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is ready; raises with its log when it has ended or takes ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{server.args!r} did not start:\n{log.read_text()}")
        time.sleep(0.002)


def end(server: subprocess.Popen[bytes], timeout: float = 10.0) -> None:
    """Ask a server to end, and make it end when it does not."""
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(timeout)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def kill(pid: int) -> None:
    """Kill a process, which may be gone, and wait until it is."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGKILL)
        select.select([watch], [], [], 10)
    except ProcessLookupError:
        pass
    finally:
        os.close(watch)


def children(pid: int) -> list[int]:
    """The processes that a process has started and not yet seen end."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextmanager
def undone(undo: Callable[[], None]) -> Iterator[None]:
    """Leave nothing behind when what is being started fails half-way."""
    try:
        yield
    except BaseException:
        undo()
        raise
