"""The basis of every host fixture: a unique number, a directory, programs, and the cleanup."""

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

# The kernel sends the signal when the thread that started the server ends, so this thread must live until the end.
STARTER = ThreadPoolExecutor(1)
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


class Place:
    """A directory outside /tmp and a number from 1 to 250, both reserved until `close`."""

    def __init__(self, kind: str, under: str = "/var/tmp") -> None:
        self.number, self._claim = _claim()
        self.dir = Path(tempfile.mkdtemp(prefix=f"mngr-{kind}-", dir=under))

    def close(self) -> None:
        """End all processes that use the directory, unmount and remove it, and release the number."""
        while pids := naming(self.dir):
            for pid in pids:
                kill(pid)
        for point in reversed(mounts(self.dir)):
            subprocess.run(["umount", "-l", point], capture_output=True, check=False)
        shutil.rmtree(self.dir, ignore_errors=True)
        self._claim.close()


def _claim() -> tuple[int, socket.socket]:
    """Reserve a number with an abstract socket, which the kernel frees when this process ends in any way."""
    for number in range(1, 251):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0mngr-tests-{number}")
        except OSError:
            claim.close()
            continue
        return number, claim
    raise RuntimeError("250 sets of hosts are running")


def mounts(directory: Path) -> list[str]:
    """Return every mount point below a directory, outermost first."""
    points = [line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{directory}/")]


def naming(directory: Path, proc_file: str = "cmdline") -> list[int]:
    """Return the processes with a directory in their command line, or in their `environ`."""
    pids, path_bytes = [], os.fsencode(directory)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            content = Path(f"/proc/{pid}/{proc_file}").read_bytes()
        except OSError:
            continue
        if path_bytes in content:
            pids.append(int(pid))
    return pids


def program(name: str) -> str:
    """Return the path of a program. sshd must be called by its full path."""
    path = shutil.which(name, path=PATH)
    if not path:
        raise RuntimeError(f"there is no {name}: `make test-hosts` installs it")
    return path


def start(argv: list[str], log: Path, farewell: str = "TERM") -> subprocess.Popen[bytes]:
    """Start a server that gets a signal when this process ends, even if it is killed."""
    command = [program("setpriv"), "--pdeathsig", farewell, program(argv[0]), *argv[1:]]
    with log.open("ab") as out:
        return STARTER.submit(_popen, command, out).result()


def _popen(words: list[str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={"PATH": PATH})


def wait_until(condition: Callable[[], Any], server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server is ready. Raise RuntimeError with its log if it ends or takes ten seconds."""
    deadline = time.monotonic() + 10
    while not condition():
        if server.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{server.args!r} did not start:\n{log.read_text()}")
        time.sleep(0.002)


def end(server: subprocess.Popen[bytes], timeout: float = 10.0) -> None:
    """Ask a server to end, and kill it if it does not."""
    if server.poll() is None:
        server.terminate()
    try:
        server.wait(timeout)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def kill(pid: int) -> None:
    """Kill a process and wait until it is gone."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        os.kill(pid, signal.SIGKILL)
        select.select([pidfd], [], [], 10)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)


def children(pid: int) -> list[int]:
    """Return the child processes that a process has not reaped yet."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextmanager
def undone(undo: Callable[[], None]) -> Iterator[None]:
    """Call `undo` if the block fails, so that a failed start leaves nothing behind."""
    try:
        yield
    except BaseException:
        undo()
        raise
