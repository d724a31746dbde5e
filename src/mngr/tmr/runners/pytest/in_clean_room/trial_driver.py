"""Runs many trials of tests in one command: it loads pytest once, and forks a child for each trial.

A clean room installs this program in the observer's place. pytest loads it before any code of the project, and it never
returns to pytest. This process, the driver, runs no code of the project. It changes files for each trial, starts the
child, ends the processes that the child leaves, restores all files, and writes the result to its own stdout. A child
has no secrets of the driver. Its tests report through a pipe that only this child has.
Other processes of the sandbox hold the driver's stdout, too, and a test can open it there. Therefore the driver signs
each result with a random key. It prints a hash of the key before the first child starts, and the key after the last
child has ended.
Standard library and pytest only, Python 3.9 or newer, Linux.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import sys
import time
import zlib
from types import ModuleType

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_SET_DUMPABLE, _SUBREAPER = 4, 36  # prctl: whether other processes may look into this one; who gets orphans
_MAX_REPORT = 1 << 23  # bytes of a trial's report
_MAX_OUTPUT = 8_000  # bytes of a trial's output that are kept
_MAX_SAVED_FILE, _MAX_SAVED = 1 << 20, 1 << 26  # bytes of one file, and of all files, that can be restored
_MAX_ADDRESS_SPACE = 4 << 30  # bytes per process, because a changed program may use more and more
_DRAIN_SECONDS = 1.0  # for the pipes of a child that has ended
_SKIPPED_DIRS = (".git", ".venv", "node_modules")

FACTS: dict[str, Any] = json.loads(os.environ.pop("MNGR_OBSERVER"))
REPORT_PATH = os.environ.pop("MNGR_OBSERVER_REPORT")
WORK_DIR = os.path.realpath(os.environ.pop("MNGR_OBSERVER_WORK"))
PYTHON_PATH = os.environ.pop("MNGR_OBSERVER_PATH")
LIBC = ctypes.CDLL(None)
KEY = bytearray(32)


def unpack(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


class FileSnapshot:
    """The files that trials may change: those of the work dir, and in a sandbox also temporary ones."""

    def __init__(self, scratch_dirs: list[str]) -> None:
        self._scratch = {place: set(_list_names(place)) for place in scratch_dirs}
        self._identities: dict[str, tuple[int, int, int]] = {}
        self._texts: dict[str, bytes] = {}
        size = 0
        for path, identity in _iter_files(WORK_DIR):
            self._identities[path] = identity
            if identity[2] and identity[0] <= min(_MAX_SAVED_FILE, _MAX_SAVED - size) and not os.path.islink(path):
                try:
                    with open(path, "rb") as file:
                        self._texts[path] = file.read()
                except OSError:
                    continue
                size += identity[0]

    def read(self, path: str) -> bytes | None:
        """Return a file's original content, or None if it has none or was not saved."""
        return self._texts.get(path)

    def restore(self) -> list[str]:
        """Remove new files and write changed ones again. Return the files that could not be restored."""
        for place, names in self._scratch.items():
            for name in _list_names(place):
                if name not in names:
                    _remove(os.path.join(place, name))
        lost, seen = [], set()
        for path, identity in list(_iter_files(WORK_DIR)):
            seen.add(path)
            if path not in self._identities:
                _remove(path)
            elif identity != self._identities[path] and not self._write(path):
                lost.append(path)
        missing = sorted(self._identities.keys() - seen)
        return lost + [path for path in missing if not self._write(path)]

    def forget(self) -> None:
        """Drop the contents, in a child."""
        self._texts.clear()

    def _write(self, path: str) -> bool:
        if self._identities[path] == (0, 0, 0):
            if os.path.islink(path):
                os.unlink(path)
            os.makedirs(path, exist_ok=True)
            return True
        if path not in self._texts:
            return False
        try:
            write_file(path, self._texts[path])
        except (OSError, ValueError):
            return False
        stat = os.lstat(path)
        self._identities[path] = stat.st_size, stat.st_mtime_ns, stat.st_ino
        return True


def _list_names(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _iter_files(place: str) -> Any:
    """Yield each file and directory with its size, time and number. Those of a directory are zero."""
    if not os.access(place, os.R_OK | os.X_OK):  # a test removed permissions
        os.chmod(place, 0o700)
    for entry in os.scandir(place):
        if not entry.is_dir(follow_symlinks=False):
            stat = entry.stat(follow_symlinks=False)
            yield entry.path, (stat.st_size, stat.st_mtime_ns, stat.st_ino)
        elif entry.name not in _SKIPPED_DIRS and not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            yield entry.path, (0, 0, 0)
            yield from _iter_files(entry.path)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        os.unlink(path)
    except OSError:
        pass


def write_file(path: str, data: bytes) -> None:
    """Write a file as a new one, so that no process has it open. Each content gets its own time of long ago."""
    if not os.path.realpath(path).startswith(WORK_DIR + os.sep):
        raise ValueError(f"{path} points outside {WORK_DIR}")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644
    _remove(path)
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    # Python reuses compiled code if a file's size and modification second are the same.
    modified_at = 1_000_000_000 + zlib.crc32(data) % 500_000_000
    os.utime(path, (modified_at, modified_at))


def apply_changes(trial: Any, snapshot: FileSnapshot) -> str:
    """Write the files of a trial, and return why that is not possible."""
    texts: dict[str, bytes | None] = {
        path: None if packed is None else unpack(packed) for path, packed in trial["files"].items()
    }
    try:
        for path, start, end, new in sorted(trial["edits"], key=lambda edit: -edit[1]):
            data = texts.get(path) or snapshot.read(os.path.join(WORK_DIR, path))
            if data is None:
                return f"{path} is missing or too large"
            text = data.decode("utf-8", "surrogateescape")
            texts[path] = (text[:start] + new + text[end:]).encode("utf-8", "surrogateescape")
        for path, data in texts.items():
            full = os.path.join(WORK_DIR, path)
            if data is not None:
                write_file(full, data)
            elif os.path.lexists(full):
                _remove(full)
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


# The driver's side of one trial


class Child:
    """One forked child, which runs the tests of one trial."""

    def __init__(self, number: int, trial: Any) -> None:
        self.streams = {name: bytearray() for name in ("report", "output")}
        self.code: int | None = None
        report, output = os.pipe(), os.pipe()
        self.pid = os.fork()
        if not self.pid:
            _run_child(number, trial, report[1], output[1], (report[0], output[0]))
        self._open = {report[0]: "report", output[0]: "output"}
        self._poll = select.poll()
        for fd in (report[1], output[1]):
            os.close(fd)
        for fd in self._open:
            self._poll.register(fd, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        """Wait until the child has ended. Return True if it was ended because of its time."""
        end = time.monotonic() + timeout
        while self.code is None:
            if time.monotonic() >= end:
                os.kill(self.pid, signal.SIGKILL)
                self._reap(0)
                return True
            self._read(0.02)
            self._reap(os.WNOHANG)
        return False

    def _reap(self, flags: int) -> None:
        pid, status = os.waitpid(self.pid, flags)
        if pid:
            self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

    def drain(self) -> None:
        """Read what is left in the pipes, and close them."""
        end = time.monotonic() + _DRAIN_SECONDS
        while self._open and time.monotonic() < end and self._read(0.05):
            pass
        for fd in list(self._open):
            self._close(fd)

    def _read(self, timeout: float) -> bool:
        """Read available data for at most `timeout` seconds; return True when anything was ready."""
        if not self._open:  # the child closed its streams
            time.sleep(timeout)
        ready = self._poll.poll(timeout * 1000) if self._open else []
        for fd, _ in ready:
            data = os.read(fd, 1 << 16)
            name = self._open[fd]
            stream = self.streams[name]
            stream += data
            if name == "output":
                del stream[:-_MAX_OUTPUT]
            if not data or (name == "report" and len(stream) > _MAX_REPORT):
                self._close(fd)
        return bool(ready)

    def _close(self, fd: int) -> None:
        self._poll.unregister(fd)
        del self._open[fd]
        os.close(fd)


def kill_descendants() -> int:
    """End all processes below the driver, and return how many there were."""
    killed: set[int] = set()
    end = time.monotonic() + 2 * _DRAIN_SECONDS
    while time.monotonic() < end:
        below = _list_descendants(os.getpid())
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            break
        time.sleep(0.002)
    return len(killed)


def _list_descendants(of: int) -> list[int]:
    """Return the processes below one that have not ended."""
    children: dict[int, list[int]] = {}
    ended = set()
    for name in _list_names("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    row = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            children.setdefault(int(row[1]), []).append(int(name))
            if row[0] == b"Z":
                ended.add(int(name))
    below = list(children.get(of, []))
    for pid in below:
        below += children.get(pid, [])
    return [pid for pid in below if pid not in ended]


def run_trial(number: int, trial: Any, snapshot: FileSnapshot) -> dict[str, Any]:
    """Run a trial and return its result."""
    row: dict[str, Any] = {"trial": number, "problem": apply_changes(trial, snapshot)}
    if not row["problem"]:
        began, before = time.monotonic(), os.times()
        child = Child(number, trial)
        timed_out = child.wait(trial["timeout"])
        seconds = time.monotonic() - began
        left = kill_descendants()
        after = os.times()
        child.drain()
        row.update(
            code=child.code,
            timed_out=timed_out,
            left=left,
            seconds=seconds,
            cpu=after.children_user + after.children_system - before.children_user - before.children_system,
            rows=child.streams["report"].decode("utf-8", "replace"),
            output=child.streams["output"].decode("utf-8", "replace"),
        )
    row["lost"] = snapshot.restore()
    return row


def drive() -> NoReturn:
    """Run all trials, one after the other, and write each result as a line of JSON."""
    trials = json.loads(unpack(FACTS["trials"]))
    LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    scratch_dirs = [*FACTS["scratch"], os.environ["MNGR_OUTPUT_DIR"], os.path.dirname(REPORT_PATH)]
    snapshot = FACTS["snapshot"] = FileSnapshot(scratch_dirs)
    FACTS["trials"] = trials
    end = time.monotonic() + FACTS["budget"]
    sys.stdout.flush()
    with open("/dev/urandom", "rb", buffering=0) as file:
        file.readinto(KEY)
    write_line(hashlib.blake2b(KEY).hexdigest())
    gc.freeze()  # the children then do not search pytest's own objects for garbage
    for number, trial in enumerate(trials):
        if time.monotonic() >= end and not trial["always"]:
            continue
        row = run_trial(number, trial, snapshot)
        text = json.dumps(row)
        write_line(f"{hashlib.blake2b(text.encode(), key=KEY).hexdigest()} {text}")
        if row["lost"]:
            break
    write_line(KEY.hex())
    os._exit(0)


def write_line(text: str) -> None:
    """Write a line to the driver's stdout. It begins with a line end, because a test may have written half a line."""
    data = f"\n{text}\n".encode()
    while data:
        data = data[os.write(1, data) :]


# The child's side


def _run_child(number: int, trial: Any, report_fd: int, output_fd: int, foreign_fds: tuple[int, ...]) -> NoReturn:
    """Become a pytest that runs the tests of a trial. Nothing of the driver stays in this process."""
    code = 70
    KEY[:] = bytes(len(KEY))
    try:
        os.setsid()
        null_fd = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null_fd, 0), (output_fd, 1), (output_fd, 2)):
            os.dup2(source, target)
        for fd in (null_fd, output_fd, *foreign_fds):
            os.close(fd)
        os.set_inheritable(report_fd, False)
        LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = _MAX_ADDRESS_SPACE if hard == resource.RLIM_INFINITY else min(hard, _MAX_ADDRESS_SPACE)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        observer_text = unpack(FACTS["observer"]).decode()
        plugins = json.loads(unpack(FACTS["plugins"]))
        settings = {**trial["settings"], "fd": report_fd, "repo": FACTS["repo"]}
        settings["plugins"] = {name: plugins[name] for name in trial["plugins"]}
        args, variables = list(trial["args"]), dict(trial["env"])
        script = unpack(trial["script"]).decode() if trial["script"] else ""
        for secret in (FACTS["snapshot"].forget, FACTS["trials"].clear, trial.clear, FACTS.clear):
            secret()
        if script:
            _run_script(script)
        os.environ.update(
            MNGR_OBSERVER=json.dumps(settings),
            MNGR_OBSERVER_REPORT=f"{REPORT_PATH}-{number}",
            MNGR_OBSERVER_WORK=WORK_DIR,
            MNGR_OBSERVER_PATH=PYTHON_PATH,
            **variables,
        )
        sys.argv[1:] = args
        sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != "AssertionRewritingHook"]
        observer = ModuleType("mngr_observer")
        observer.__file__ = __file__
        sys.modules["mngr_observer"] = sys.modules["mngr_observer_hooks"] = observer
        exec(compile(observer_text, __file__, "exec"), observer.__dict__)
        code = int(pytest.main(args, plugins=[observer, _SkipSummaries()]))
        # As at the normal end of a program. Threads and handlers of the tests may decide the exit code.
        sys.stdout.flush()
        sys.stderr.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code & 0xFF)


class _SkipSummaries:
    """Skips the summaries that installed plugins print at the end. Nobody reads them, and some take longer than a test."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        manager, hook = session.config.pluginmanager, session.config.hook
        installed = [plugin for plugin, _ in manager.list_plugin_distinfo()]
        hook.pytest_terminal_summary = manager.subset_hook_caller("pytest_terminal_summary", installed)


def _run_script(script: str) -> NoReturn:
    """Become a Python program without pytest, its variables and mngr's."""
    names = [name for name in os.environ if not name.startswith(("MNGR", "PYTEST"))]
    variables = {name: os.environ[name] for name in names}
    if PYTHON_PATH:
        variables["PYTHONPATH"] = PYTHON_PATH
    else:
        variables.pop("PYTHONPATH", None)
    os.chdir(WORK_DIR)
    os.execve(sys.executable, [sys.executable, "-c", script], variables)


drive()
