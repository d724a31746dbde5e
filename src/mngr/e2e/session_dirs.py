"""Creates the directories of test sessions, and removes them together with the processes that use them."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SESSIONS_DIR = "/tmp"  # short, because the path of a socket has at most 108 bytes
SESSION_PREFIX = "e2e-"
_OWNER_FILE = "owner"
_LISTENING_FLAG = "00010000"  # one of the flags in /proc/net/unix


def make_session_dir() -> Path:
    """Create a session directory that names the process that owns it."""
    root = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir=SESSIONS_DIR))
    try:
        (root / _OWNER_FILE).write_text(f"{os.getpid()} {_identify_process(os.getpid())}\n")
    except FileNotFoundError:
        pass  # Without /proc mngr never removes abandoned directories.
    return root


def remove_session_dir(root: Path) -> None:
    """Kill every process that uses a session directory, and delete the directory."""
    kill_processes_of(root)
    _delete_tree(root)


def remove_abandoned_dirs() -> list[Path]:
    """Remove the session directories whose owners were killed, and return them."""
    own_root = os.environ.get("MNGR_E2E_ROOT")  # the session in which this process itself runs
    paths = (os.path.join(SESSIONS_DIR, name) for name in os.listdir(SESSIONS_DIR) if name.startswith(SESSION_PREFIX))
    abandoned = [Path(path) for path in paths if path != own_root and _is_abandoned(path)]
    for root in abandoned:
        kill_processes_of(root, _is_session_process)  # A person may have gone there to look, and must not be killed.
        _delete_tree(root)
    return abandoned


def _identify_process(pid: int) -> str | None:
    """Return a string that identifies a process even if its pid is reused, or None when it has ended.

    Raises OSError on a system without /proc.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    namespace = os.readlink("/proc/self/ns/pid")
    try:
        state, *words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else f"{words[18]} {boot} {namespace}"


def _is_abandoned(path: str) -> bool:
    """True when this user owns the directory and its owner process is gone. False if it names no owner."""
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return False
        pid, start, boot, namespace = Path(path, _OWNER_FILE).read_text().split()
        _, our_boot, our_namespace = str(_identify_process(os.getpid())).split()
        if boot != our_boot:
            return True  # the machine was rebooted since then
        # Processes in another container cannot be seen from here.
        return namespace == our_namespace and _identify_process(int(pid)) != f"{start} {boot} {namespace}"
    except (OSError, ValueError):
        return False


def _delete_tree(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    if root.exists():  # directories without write permission
        for top, _, _ in os.walk(root):
            os.chmod(top, 0o700)
        shutil.rmtree(root, ignore_errors=True)


def kill_processes_of(root: Path, matches: Callable[[int, str], bool] | None = None) -> list[int]:
    """Kill every process that uses the directory, and return their pids."""
    killed: list[int] = []
    sockets: list[str] = []
    for _ in range(20):  # A process may start another one in the meantime.
        pids = [pid for pid in _list_pids() if pid != os.getpid() and (matches or _is_using_dir)(pid, str(root))]
        if not pids:
            break
        sockets += _list_sockets(pids)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        killed += pids
        time.sleep(0.01)
    for path in sockets:  # The killed processes cannot remove their sockets themselves.
        Path(path).unlink(missing_ok=True)
    return killed


def _list_sockets(pids: list[int]) -> list[str]:
    """Return the paths on which these processes listen, such as tmux servers. They may be outside the directory."""
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
        pass  # The process has ended and its files are closed.


def _list_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def _is_using_dir(pid: int, directory: str) -> bool:
    """True when a running process has the directory in its variables, its arguments or as its work dir."""
    try:
        if os.readlink(f"/proc/{pid}/cwd").startswith(directory):
            return True
        sources = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
        return any(directory.encode() in text for text in sources)  # Both are empty once the process has ended.
    except OSError:
        return False


def _is_session_process(pid: int, directory: str) -> bool:
    """True when the variables of a running process show that the session started it.

    PWD is ignored: a shell that a person moved into the directory does not count.
    """
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(directory.encode() in row for row in variables if not row.startswith((b"PWD=", b"OLDPWD=")))
