"""Runs in a room: makes it clean, runs one command there to its end, and answers how that was.

Its one argument is the job, a table as Python writes it; standard library only, Python 3.9 or newer, and imports so little because it runs
for every test. The answer is a line of JSON with numbers, then the texts whose lengths it names. Nothing that the command
started outlives it: behind walls the kernel ends it all with the first of them, else orphans become children of this
process where the system can do that (Linux), else its process group is ended.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

JOB: dict[str, Any] = eval(sys.argv[1], {})
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_DEFAULT_SIGNALS = (
    1,
    2,
    3,
    13,
    15,
    25,
)  # HUP INT QUIT PIPE TERM XFSZ: as a command has them that a shell starts
_INT, _KILL = 2, 9
_INTERRUPT_TIMEOUT = 3.0  # seconds for a test to put away what it made, after it was interrupted
_DRAIN_TIMEOUT = 2.0  # seconds to read what is left in the pipes, and to see the last process go
_GIT_SAFE_ARGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")  # a test may have set them
_POLL_INTERVAL = 0.05  # seconds between looks at what the command uses, and at who has ended
_KEPT_DIR = "__pycache__"  # not taken away: what Python makes of sources is as good as they are


def main() -> None:
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    try:
        if JOB.get("commit"):
            clean_workspace(JOB["commit"], JOB["keep"])
        if JOB.get("survey"):
            texts.update(describe_workspace())
        if JOB.get("argv"):
            run_command(numbers, texts)
    except WorkspaceBroken as error:
        texts = {"broken": str(error)}
    fields = [f'"{name}": {number}' for name, number in numbers.items()]
    fields.append('"texts": {' + ", ".join(f'"{name}": {len(text)}' for name, text in texts.items()) + "}")
    answer = "{" + ", ".join(fields) + "}\n" + "".join(texts.values())
    sys.stdout.buffer.write(answer.encode("utf-8", "replace"))


class WorkspaceBroken(Exception):
    """The room is no longer what it was made as."""


def clean_workspace(commit: str, keep: list[str]) -> None:
    """The commit's files, what set-up made, and nothing else."""
    excepted = [word for pattern in (*keep, _KEPT_DIR) for word in ("-e", pattern)]
    for last in (False, True):
        try:
            run_git("reset", "--quiet", "--hard", "--no-recurse-submodules", commit, "--")
            run_git("clean", "-ffdxq", *excepted)
            return
        except WorkspaceBroken:
            if last:
                raise
        WatchedProcess(["chmod", "-R", "u+rwX", "."], dict(os.environ), 1 << 12).wait(
            None
        )  # a test took permissions away


def describe_workspace() -> dict[str, str]:
    """Where the room stands, and what git does not have of what is there: set-up has made it."""
    rows = run_git("status", "--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal").split("\0")
    made = [row[3:] for row in rows if row[:2] in ("!!", "??")]
    found = [name for name in made if os.path.isfile(f"{name}pyvenv.cfg")]
    lists = {
        "made": made,
        "environments": found,
        "pythons": [os.path.realpath(f"{name}bin/python") for name in found],
    }
    return {
        "at": run_git("rev-parse", "HEAD", "HEAD^{tree}"),
        "place": os.getcwd(),
        "outputs": os.environ["MNGR_OUTPUT_DIR"],
        "host": os.uname()[1],
        "kept": install_programs(JOB["programs"]),
        **{name: "\0".join(words) for name, words in lists.items()},
    }


def install_programs(programs: dict[str, str]) -> str:
    """Lay our programs where Python finds them compiled, and the commands of the room do not; the place."""
    sealed = not os.access(os.environ["MNGR_AGENT_DIR"], os.W_OK)  # the room of a sandboxed agent
    place = os.path.join(os.environ["MNGR_OUTPUT_DIR" if sealed else "MNGR_AGENT_DIR"], "warden")
    os.makedirs(place, exist_ok=True)
    for name, text in programs.items():
        write_if_changed(os.path.join(place, name), text)
    return place


def run_git(*words: str) -> str:
    command = WatchedProcess(["git", *_GIT_SAFE_ARGS, *words], dict(os.environ), 1 << 24)
    command.wait(None)
    if command.code:
        said = command.get_output(1).strip().splitlines() or [f"exit code {command.code}"]
        raise WorkspaceBroken(f"git {words[0]}: {said[-1]}")
    return command.get_output(0)


def run_command(numbers: dict[str, float], texts: dict[str, str]) -> None:
    """The command itself, watched by the probe if there is one."""
    env = {**os.environ, **JOB["env"]}
    place = os.path.join(os.environ["MNGR_OUTPUT_DIR"], "tmr")
    mine = os.path.join(place, f"run-{os.getpid()}")  # this run's alone
    report = os.path.join(mine, "rows.jsonl")
    if "probe" in JOB:
        os.makedirs(mine)
        write_if_changed(os.path.join(place, "mngr_probe.py"), JOB["probe"])
        open(report, "x").close()
        before = env.get("PYTHONPATH", "")
        env.update(MNGR_PROBE_REPORT=report, MNGR_PROBE_WORK=os.getcwd(), MNGR_PROBE_PATH=before)
        env["PYTHONPATH"] = place + (os.pathsep + before if before else "")
    argv, around = JOB["argv"], JOB.get("walls")
    if around:
        compiled = os.path.join(place, "__pycache__")
        os.makedirs(compiled, exist_ok=True)
        binds = [compiled, *([mine, report] if "probe" in JOB else [])]
        argv = [*around["words"], *[word for path in binds for word in ("--bind", path, path)]]
        argv += ["--seccomp", "9", *around["last"], *JOB["argv"]]
        env.update(around["env"])
    become_subreaper()
    limits = None
    if JOB.get("most_used") and os.path.exists("/proc/loadavg"):
        import mngr_limits  # type: ignore[import-not-found]

        limits = mngr_limits.ResourceMonitor(
            JOB["most_used"], [os.getcwd(), os.environ["MNGR_OUTPUT_DIR"]], list_descendants
        )
    used, began = measure_cpu(), time.monotonic()
    command = WatchedProcess(argv, env, JOB["most"], around["filter"] if around else None, limits)
    command.stop_when_reader_exits()
    timed_out = command.wait(JOB["timeout"])
    numbers.update(seconds=time.monotonic() - began, timed_out=int(timed_out), left=command.kill_remaining(), hit=0)
    if around:
        left, hit = (0, 0) if timed_out or command.limit_message else command.read_parent_report()
        numbers.update(left=left, hit=hit)
        command.limit_message = command.limit_message or (limits.check_process_count(left) if limits else "")
    numbers.update(code=command.code or 0, cpu=measure_cpu() - used)
    texts.update(out=command.get_output(0), err=command.get_output(1), ended=command.limit_message, rows="")
    if "probe" in JOB:
        texts["rows"] = read_report(report, JOB["most_rows"])
        remove_tree(mine)


def write_if_changed(path: str, text: str) -> None:
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except OSError:
        pass
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(fresh, path)


def read_report(path: str, most: int) -> str:
    """What a report says, as far as it is not too long."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            data = file.read(most)
    except OSError:
        return ""
    return data.decode("utf-8", "replace")


def remove_tree(place: str) -> None:
    for top, folders, files in os.walk(place, topdown=False):
        for name in (*files, *folders):
            path = os.path.join(top, name)
            try:
                os.rmdir(path) if name in folders and not os.path.islink(path) else os.unlink(path)
            except OSError:
                pass
    try:
        os.rmdir(place)
    except OSError:
        pass


def measure_cpu() -> float:
    """Seconds of all processes below this one that have ended."""
    used = os.times()
    return used.children_user + used.children_system


def become_subreaper() -> None:
    if not sys.platform.startswith("linux"):
        return
    try:
        import _ctypes  # the whole of it takes as long to load as this program to run

        libc: Any = _ctypes
        libc.call_function(libc.dlsym(libc.dlopen(None, 0), "prctl"), (_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class WatchedProcess:
    """A process in a session of its own; of each of its streams the end is kept."""

    def __init__(
        self,
        argv: list[str],
        env: dict[str, str],
        most: int,
        filter: bytes | None = None,  # it is behind walls, with this for the kernel
        limits: Any = None,
    ) -> None:
        self.code: int | None = None
        self.limit_message = ""  # the limit that it was ended for
        self._limits, self._look = limits, 0.0
        self._parent_fd = -1  # what the parent of a command behind walls says
        self._max_output = most
        self._poll = select.poll()
        self._open_streams: dict[int, bytearray] = {}
        self._outputs = [bytearray(), bytearray()]
        pipes = [os.pipe(), os.pipe()]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, pipes[at][1], at + 1) for at in (0, 1)]
        self._exit = -1
        ours = []
        if filter is not None:
            rules = os.memfd_create("filter")
            os.write(rules, filter)
            os.lseek(rules, 0, os.SEEK_SET)
            self._parent_fd, said = os.pipe()
            ours = [said, rules]
            actions += [(os.POSIX_SPAWN_DUP2, said, 8), (os.POSIX_SPAWN_DUP2, rules, 9)]
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                argv,
                env,
                file_actions=actions,
                setsid=True,
                setsigdef=_DEFAULT_SIGNALS,
                setsigmask=(),
            )
        except OSError as error:
            self.pid, self.code = 0, 127
            os.write(pipes[1][1], f"{argv[0]}: {error.strerror}\n".encode())
        for fd in ours:
            os.close(fd)
        for at, (end, other) in enumerate(pipes):
            os.close(other)
            self._open_streams[end] = self._outputs[at]
            self._poll.register(end, select.POLLIN)
        if self.pid and hasattr(os, "pidfd_open"):
            self._exit = os.pidfd_open(self.pid)
            self._poll.register(self._exit, select.POLLIN)

    def stop_when_reader_exits(self) -> None:
        """From now on, when nobody is left to read the answer, all of it ends."""
        self._poll.register(1, 0)

    def wait(self, timeout: float | None) -> bool:
        """Until it has ended; whether it had to be."""
        if self._wait_until(None if timeout is None else time.monotonic() + timeout):
            return False
        self._signal(_INT)
        if not self._wait_until(time.monotonic() + _INTERRUPT_TIMEOUT):
            self._signal(_KILL)
            self._wait_until(None)
        return True

    def _wait_until(self, end: float | None) -> bool:
        while self.code is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return False
            tick = 0.02 if self._exit < 0 else _POLL_INTERVAL
            self._read(tick if left is None else min(left, tick))
            if self._limits and not self.limit_message and time.monotonic() >= self._look:
                self._look = time.monotonic() + _POLL_INTERVAL
                self.limit_message = self._limits.find_broken_limit()
                if self.limit_message:
                    self._signal(_KILL)
            pid = -1
            while pid and self.code is None:  # orphans as well: the command may wait until they are gone
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.pid:
                    self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if self._exit >= 0:
            self._poll.unregister(self._exit)
            os.close(self._exit)
            self._exit = -1
        patience = 0.0 if reap_children() else _DRAIN_TIMEOUT  # who outlives it may hold its streams for ever
        while self._open_streams and self._read(patience):
            pass
        return True

    def _read(self, timeout: float | None) -> bool:
        ready = self._poll.poll(None if timeout is None else timeout * 1000)
        for fd, _ in ready:
            if fd == self._exit:
                continue
            if fd == 1:
                self.kill_remaining()
                os._exit(1)
            data = os.read(fd, 1 << 16)
            kept = self._open_streams[fd]
            kept += data
            if len(kept) > 2 * self._max_output:
                del kept[: -self._max_output]
            if not data:
                self._poll.unregister(fd)
                os.close(fd)
                del self._open_streams[fd]
        return bool(ready)

    def get_output(self, stream: int) -> str:
        return bytes(self._outputs[stream][-self._max_output :]).decode("utf-8", "replace")

    def _signal(self, number: int) -> None:
        target = self.pid
        if (
            self._parent_fd >= 0 and number != _KILL
        ):  # only those behind the walls: the first in there is the second of all
            target = next(iter(list_descendants(self.pid)), 0)
        try:
            if target:
                os.killpg(target, number)
        except (ProcessLookupError, PermissionError):
            pass

    def read_parent_report(self) -> tuple[int, int]:
        """How many processes were left, and whether it was sent a signal, as says the parent of a command behind walls."""
        os.set_blocking(self._parent_fd, False)
        try:
            said = os.read(self._parent_fd, 100).split()
        except BlockingIOError:
            said = []
        if not said:
            raise WorkspaceBroken(self.get_output(1).strip() or f"its walls ended with exit code {self.code}")
        if self.code is not None and 128 < self.code < 193:
            self.code = 128 - self.code
        if len(said) > 2:
            return int(said[1]), int(said[2])
        self.limit_message = "room-parent it killed its parent process"
        return 0, 1

    def kill_remaining(self) -> int:
        """End what the command left behind; how many processes that were."""
        self._signal(_KILL)
        ended: set[int] = set()
        end = time.monotonic() + _DRAIN_TIMEOUT
        while reap_children() and time.monotonic() < end:
            for pid in list_descendants(os.getpid()) if self._parent_fd < 0 else ():  # behind walls the kernel does it
                ended.add(pid)
                try:
                    os.kill(pid, _KILL)
                except (ProcessLookupError, PermissionError):
                    pass
            time.sleep(0.001)
        return len(ended)


def list_dir(place: str) -> list[str]:
    try:
        return [f"{place}/{name}" for name in os.listdir(place)]
    except OSError:
        return []


def reap_children() -> bool:
    """Take note of all that have ended; whether there are others."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def list_descendants(of: int) -> dict[int, list[bytes]]:
    """Every process below one, and what the system tells of it from its state on; none where it tells nothing."""
    rows: dict[int, list[bytes]] = {}
    below: dict[int, list[int]] = {}
    for name in list_dir("/proc"):
        if name[6:].isdigit():
            try:
                with open(f"{name}/stat", "rb") as file:
                    row = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            rows[int(name[6:])] = row
            below.setdefault(int(row[1]), []).append(int(name[6:]))
    found = list(below.get(of, []))
    for pid in found:
        found += below.get(pid, [])
    return {pid: rows[pid] for pid in found}


main()
