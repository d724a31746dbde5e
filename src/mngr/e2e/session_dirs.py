"""The places of sessions: whose each is, what runs there, and when it goes."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SESSIONS_DIR = "/tmp"  # short: a socket's path has 108 bytes
SESSION_PREFIX = "e2e-"
_OWNER_FILE = "owner"
_LISTENING_FLAG = "00010000"  # of the flags in /proc/net/unix


def make_session_dir() -> Path:
    """A new place, with a note of the process whose it is."""
    root = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir=SESSIONS_DIR))
    try:
        (root / _OWNER_FILE).write_text(f"{os.getpid()} {_identify_process(os.getpid())}\n")
    except FileNotFoundError:
        pass  # a system without /proc, where nothing is swept
    return root


def remove_session_dir(root: Path) -> None:
    """End everything that has to do with a place, and take it away."""
    kill_processes_of(root)
    _delete_tree(root)


def remove_abandoned_dirs() -> list[Path]:
    """Remove the places whose owners were killed; those."""
    own = os.environ.get("MNGR_E2E_ROOT")  # of a test in which this process runs
    every = (os.path.join(SESSIONS_DIR, name) for name in os.listdir(SESSIONS_DIR) if name.startswith(SESSION_PREFIX))
    left = [Path(path) for path in every if path != own and _is_abandoned(path)]
    for root in left:
        kill_processes_of(root, _is_session_process)  # a person may be there by now, to see what happened
        _delete_tree(root)
    return left


def _identify_process(pid: int) -> str | None:
    """What tells a process from every other that had or will have its number; None when it has ended. Raises OSError."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    space = os.readlink("/proc/self/ns/pid")
    try:
        state, *words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else f"{words[18]} {boot} {space}"


def _is_abandoned(path: str) -> bool:
    """Whether a place is ours and its owner is gone; one that says nothing of its owner is left alone."""
    try:
        about = os.lstat(path)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            return False
        pid, start, boot, space = Path(path, _OWNER_FILE).read_text().split()
        _, our_boot, our_space = str(_identify_process(os.getpid())).split()
        if boot != our_boot:
            return True  # the machine was started anew since
        # Of a process in another container nothing can be told.
        return space == our_space and _identify_process(int(pid)) != f"{start} {boot} {space}"
    except (OSError, ValueError):
        return False


def _delete_tree(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # directories that nobody may write to
        for top, _, _ in os.walk(root):
            os.chmod(top, 0o700)
        shutil.rmtree(root, ignore_errors=True)


def kill_processes_of(root: Path, knows: Callable[[int, str], bool] | None = None) -> list[int]:
    """Kill every process that has to do with a directory which no other test has; their numbers."""
    found: list[int] = []
    sockets: list[str] = []
    for _ in range(20):  # one may start another while we look
        pids = [pid for pid in _list_pids() if pid != os.getpid() and (knows or _is_using_dir)(pid, str(root))]
        if not pids:
            break
        sockets += _list_sockets(pids)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        found += pids
        time.sleep(0.01)
    for path in sockets:  # nobody else can, and nobody answers there any more
        Path(path).unlink(missing_ok=True)
    return found


def _list_sockets(pids: list[int]) -> list[str]:
    """Where these processes wait for others, such as servers of tmux; it may be outside of the place."""
    try:
        rows = [row.split(maxsplit=7) for row in Path("/proc/net/unix").read_text().splitlines()[1:]]
    except OSError:
        return []
    listening = {f"socket:[{row[6]}]": row[7] for row in rows if row[3] == _LISTENING_FLAG and row[7:]}
    names = {name for pid in pids for name in _iter_open_files(pid)}
    return [path for name, path in listening.items() if name in names and path.startswith("/")]


def _iter_open_files(pid: int) -> Iterator[str]:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            yield os.readlink(f"/proc/{pid}/fd/{name}")
    except OSError:
        pass  # it has ended, and what it had is closed


def _list_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _is_using_dir(pid: int, place: str) -> bool:
    """Whether a living process has the directory in its variables, in its words, or works in it."""
    try:
        if os.readlink(f"/proc/{pid}/cwd").startswith(place):
            return True
        told = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
        return any(place.encode() in text for text in told)  # both are empty once it has ended
    except OSError:
        return False


def _is_session_process(pid: int, place: str) -> bool:
    """Whether a living process was started in the session, by its variables; not because somebody has gone there."""
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(place.encode() in row for row in variables if not row.startswith((b"PWD=", b"OLDPWD=")))
