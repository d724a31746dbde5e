"""Runs in a clean room: cleans the workspace, runs one command to its end, and answers with the outcome.

Its one argument is the job, a Python literal of a dict. Standard library only, Python 3.9 or newer; it imports little
because it runs for every test. The answer is a line of JSON with numbers, then the texts whose lengths it names.
Nothing that the command started outlives it. In a sandbox the kernel ends all processes with the first one. Without a
sandbox, orphans become children of this process (Linux), or the command's process group is killed (other systems).
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
# HUP INT QUIT PIPE TERM XFSZ: the defaults that a shell gives a command
_DEFAULT_SIGNALS = (1, 2, 3, 13, 15, 25)
_INT, _KILL = 2, 9
_INTERRUPT_TIMEOUT = 3.0  # seconds for a test to clean up after an interrupt
_DRAIN_TIMEOUT = 2.0  # seconds to drain the pipes and to wait for the last process
_GIT_SAFE_ARGS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_NO_SETTINGS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
_GIT_SAFE_VARIABLES = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    **_NO_SETTINGS,
}
_POLL_INTERVAL = 0.05  # seconds between checks of resource use and of ended processes
# pytest compiles the plugins named on its command line, and the hooks are in another module, which is compiled once.
_OBSERVER_LOADER = "import sys, mngr_observer_hooks\nsys.modules[__name__] = mngr_observer_hooks\n"


def main() -> None:
    """Run the job and write the answer."""
    numbers: dict[str, float] = {}
    texts: dict[str, str] = {}
    try:
        if JOB["commit"]:
            clean_workspace(JOB["commit"], JOB["keep"])
        if JOB["lfs_store"]:
            import mngr_lfs  # type: ignore[import-not-found]

            mngr_lfs.fill_workspace(JOB["lfs_store"], run_git)
        if JOB["programs"] is not None:
            texts.update(describe_workspace())
        problem = protect_workspace(JOB["protected"]) if JOB["protected"] else {}
        if problem:
            texts = problem
        elif JOB["argv"]:
            run_command(numbers, texts)
    except WorkspaceBroken as error:
        texts = {"broken": str(error)}
    fields = [f'"{name}": {number}' for name, number in numbers.items()]
    fields.append('"texts": {' + ", ".join(f'"{name}": {len(text)}' for name, text in texts.items()) + "}")
    answer = "{" + ", ".join(fields) + "}\n" + "".join(texts.values())
    sys.stdout.buffer.write(answer.encode("utf-8", "replace"))


class WorkspaceBroken(Exception):
    """The clean room is no longer in the state in which it was created."""


def clean_workspace(commit: str, keep: list[str]) -> None:
    """Restore the commit's files and what set-up created, and remove everything else."""
    exclude_args = [word for pattern in keep for word in ("-e", pattern)]
    for is_last_try in (False, True):
        try:
            run_git("reset", "--quiet", "--hard", "--no-recurse-submodules", commit, "--")
            run_git("clean", "-ffdxq", *exclude_args)
            return
        except WorkspaceBroken:
            if is_last_try:
                raise
        # A test removed permissions.
        WatchedProcess(["chmod", "-R", "u+rwX", "."], dict(os.environ), 1 << 12).wait(None)


def protect_workspace(identities: dict[str, str]) -> dict[str, str]:
    """Delete what earlier commands left outside git. Return why no command may run now, if there is a reason."""
    import mngr_protection  # type: ignore[import-not-found]

    if JOB["commit"]:
        mngr_protection.clean_outputs(os.environ["MNGR_OUTPUT_DIR"])
    replaced = mngr_protection.find_replaced_dir(identities)
    if JOB["commit"] and JOB["setup_files"] and not replaced:
        import mngr_setup_files  # type: ignore[import-not-found]

        changed = mngr_setup_files.restore_setup_files(JOB["setup_files"], JOB["commit"], JOB["keep"])
        return {"changed": changed} if changed else {}
    return {"replaced": replaced} if replaced else {}


def describe_workspace() -> dict[str, str]:
    """Return the clean room's commit and directories, and the paths that set-up created outside git."""
    program_dir = install_programs(JOB["programs"])
    sys.path.insert(0, program_dir)
    import mngr_protection

    if not mngr_protection.reset_git_config():
        raise WorkspaceBroken("the set-up command replaced the repository of the workspace")
    rows = run_git("status", "--porcelain=v1", "-z", "--ignored=traditional", "--untracked-files=normal").split("\0")
    untracked = [row[3:] for row in rows if row[:2] in ("!!", "??")]
    virtualenvs = [name for name in untracked if os.path.isfile(f"{name}pyvenv.cfg")]
    virtualenvs = [name for name in virtualenvs if mngr_protection.identify(name.rstrip("/"))]
    index = run_git("ls-files", "--stage", "-z") if os.path.isfile(".gitmodules") else ""
    lists = {
        "made": untracked,
        "submodules": [row.partition("\t")[2] for row in index.split("\0") if row.startswith("160000 ")],
        "environments": virtualenvs,
        "pythons": [os.path.realpath(f"{name}bin/python") for name in virtualenvs],
    }
    return {
        "at": run_git("rev-parse", "HEAD", "HEAD^{tree}"),
        "place": os.getcwd(),
        "outputs": os.environ["MNGR_OUTPUT_DIR"],
        "host": os.uname()[1],
        "kept": program_dir,
        "python": sys.executable,
        **{name: "\0".join(paths) for name, paths in lists.items()},
        "identities": "\0".join(mngr_protection.identify(name.rstrip("/")) for name in (".git", *virtualenvs)),
    }


def install_programs(programs: dict[str, str]) -> str:
    """Write mngr's programs to a directory that commands cannot change, and return the directory."""
    program_dir = os.path.join(os.environ["MNGR_AGENT_DIR"], "clean-room")
    os.makedirs(program_dir, exist_ok=True)
    for name, text in programs.items():
        write_if_changed(os.path.join(program_dir, name), text)
    return program_dir


def run_git(*words: str) -> str:
    """Return git's output; raise WorkspaceBroken when git fails. Without the user's settings, git runs no filter."""
    # The workspace and its repository are named, because the repository's own settings could name others.
    own_dirs = {"GIT_DIR": os.path.join(os.getcwd(), ".git"), "GIT_WORK_TREE": os.getcwd()}
    env = {**os.environ, **_GIT_SAFE_VARIABLES, **own_dirs}
    command = WatchedProcess(["git", *_GIT_SAFE_ARGS, *words], env, 1 << 24)
    command.wait(None)
    if command.code:
        error_lines = command.get_output(1).strip().splitlines() or [f"exit code {command.code}"]
        raise WorkspaceBroken(f"git {words[0]} failed: {error_lines[-1]}")
    return command.get_output(0)


def run_command(numbers: dict[str, float], texts: dict[str, str]) -> None:
    """Run the command, with the observer if the job has one, and add its outcome to `numbers` and `texts`."""
    import mngr_protection as files

    env = {**os.environ, **JOB["env"]}
    if JOB["virtualenv"]:
        env["VIRTUAL_ENV"] = os.path.join(os.getcwd(), JOB["virtualenv"])
        env["PATH"] = f"{env['VIRTUAL_ENV']}/bin:{env.get('PATH', os.defpath)}"
        env.pop("PYTHONHOME", None)
    observer_dir = os.path.join(os.environ["MNGR_OUTPUT_DIR"], "tmr")
    run_dir = os.path.join(observer_dir, f"run-{os.getpid()}")  # for this run only
    report = os.path.join(run_dir, "rows.jsonl")
    if JOB["observer"] is not None:
        os.makedirs(run_dir)
        install_observer(observer_dir)
        open(report, "x").close()
        python_path = env.get("PYTHONPATH", "")
        env.update(MNGR_OBSERVER_REPORT=report, MNGR_OBSERVER_WORK=os.getcwd(), MNGR_OBSERVER_PATH=python_path)
        env["PYTHONPATH"] = observer_dir + (os.pathsep + python_path if python_path else "")
    argv, sandbox = [files.find_program(JOB["argv"][0], env), *JOB["argv"][1:]], JOB["sandbox"]
    if sandbox:
        os.makedirs(observer_dir, exist_ok=True)
        binds = [run_dir, report] if JOB["observer"] is not None else []
        argv = [*sandbox["words"], *[word for path in binds for word in ("--bind", path, path)]]
        argv += ["--seccomp", "9", *sandbox["last"], *JOB["argv"]]
        env.update(sandbox["env"])
    become_subreaper()
    limits = None
    if JOB["most_used"] and os.path.exists("/proc/loadavg"):
        import mngr_limits  # type: ignore[import-not-found]

        limits = mngr_limits.ResourceMonitor(
            JOB["most_used"], [os.getcwd(), os.environ["MNGR_OUTPUT_DIR"]], list_descendants
        )
    cpu_before, began = measure_cpu(), time.monotonic()
    command = WatchedProcess(argv, env, JOB["most"], sandbox["filter"] if sandbox else None, limits)
    command.stop_when_reader_exits()
    timed_out = command.wait(JOB["timeout"], report if JOB["stall"] else None, JOB["stall"] or 0.0)
    numbers.update(seconds=time.monotonic() - began, timed_out=int(timed_out), left=command.kill_remaining(), hit=0)
    if sandbox:
        leftover, was_signalled = (0, 0) if timed_out or command.limit_message else command.read_parent_report()
        numbers.update(left=leftover, hit=was_signalled)
        command.limit_message = command.limit_message or (limits.check_process_count(leftover) if limits else "")
    numbers.update(code=command.code or 0, cpu=measure_cpu() - cpu_before, cut=int(command.is_output_cut))
    texts.update(out=command.get_output(0), err=command.get_output(1), ended=command.limit_message, rows="")
    if JOB["observer"] is not None:
        texts["rows"] = files.read_report(report, JOB["most_rows"])
        files.remove_tree(run_dir)


def install_observer(observer_dir: str) -> None:
    """Write the observer, and compile it outside the sandbox, because tests cannot write to its directory."""
    import mngr_protection as files

    hooks = os.path.join(observer_dir, "mngr_observer_hooks.py")
    if not JOB["sandbox"]:
        files.remove_tree(os.path.join(observer_dir, "__pycache__"))  # an earlier test may have written it
    write_if_changed(os.path.join(observer_dir, "mngr_observer.py"), _OBSERVER_LOADER)
    if write_if_changed(hooks, JOB["observer"]) and JOB["sandbox"]:
        import py_compile

        py_compile.compile(hooks)


def write_if_changed(path: str, text: str) -> bool:
    """Write a text to a file; return False when the file had this text before."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return False
    except OSError:
        pass
    temporary_path = f"{path}.{os.getpid()}"
    with open(temporary_path, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(temporary_path, path)
    return True


def measure_cpu() -> float:
    """Return the CPU seconds of all descendants that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def become_subreaper() -> None:
    if not sys.platform.startswith("linux"):
        return
    try:
        import _ctypes  # importing ctypes takes as long as this program runs

        libc: Any = _ctypes
        libc.call_function(libc.dlsym(libc.dlopen(None, 0), "prctl"), (_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class WatchedProcess:
    """A process in its own session. Only the end of each output stream is kept.

    `filter` is the seccomp filter of a sandboxed command.
    """

    def __init__(
        self, argv: list[str], env: dict[str, str], most: int, filter: bytes | None = None, limits: Any = None
    ) -> None:
        self.code: int | None = None
        self.limit_message = ""  # the limit that the process was killed for
        self._limits, self._look = limits, 0.0
        self._exit = self._parent_fd = -1  # `_parent_fd` reads the report of a sandboxed command's parent
        self._max_output, self.is_output_cut = most, False
        self._poll = select.poll()
        self._open_streams: dict[int, bytearray] = {}
        self._outputs = [bytearray(), bytearray()]
        pipes = [os.pipe(), os.pipe()]
        actions: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
        actions += [(os.POSIX_SPAWN_DUP2, pipes[number][1], number + 1) for number in (0, 1)]
        child_fds = []
        if filter is not None:
            filter_fd = os.memfd_create("filter")
            os.write(filter_fd, filter)
            os.lseek(filter_fd, 0, os.SEEK_SET)
            self._parent_fd, report_fd = os.pipe()
            child_fds = [report_fd, filter_fd]
            actions += [(os.POSIX_SPAWN_DUP2, report_fd, 8), (os.POSIX_SPAWN_DUP2, filter_fd, 9)]
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
        for fd in child_fds:
            os.close(fd)
        for number, (read_end, write_end) in enumerate(pipes):
            os.close(write_end)
            self._open_streams[read_end] = self._outputs[number]
            self._poll.register(read_end, select.POLLIN)
        if self.pid and hasattr(os, "pidfd_open"):
            self._exit = os.pidfd_open(self.pid)
            self._poll.register(self._exit, select.POLLIN)

    def stop_when_reader_exits(self) -> None:
        """From now on, end everything when nobody is left to read the answer."""
        self._poll.register(1, 0)

    def wait(self, timeout: float | None, report: str | None = None, stall: float = 0.0) -> bool:
        """Wait for the end; return True after an interrupt, by time or by a report that did not grow for `stall` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        if report is not None:
            import mngr_limits
        while not self._wait_until(end if report is None else time.monotonic() + 10 * _POLL_INTERVAL):
            if report is None or mngr_limits.find_stall(report, stall, end) <= time.monotonic():
                break
        else:
            return False
        self._signal_processes(_INT)
        if not self._wait_until(time.monotonic() + _INTERRUPT_TIMEOUT):
            self._signal_processes(_KILL)
            self._wait_until(None)
        return True

    def _wait_until(self, end: float | None) -> bool:
        """Wait until the process has ended or the time `end` is reached; return True when it has ended."""
        while self.code is None:
            remaining = None if end is None else end - time.monotonic()
            if remaining is not None and remaining <= 0:
                return False
            poll_timeout = 0.02 if self._exit < 0 else _POLL_INTERVAL
            self._read(poll_timeout if remaining is None else min(remaining, poll_timeout))
            if self._limits and not self.limit_message and time.monotonic() >= self._look:
                self._look = time.monotonic() + _POLL_INTERVAL
                self.limit_message = self._limits.find_broken_limit()
                if self.limit_message:
                    self._signal_processes(_KILL)
            pid = -1
            while pid and self.code is None:  # also reaps orphans: the command may wait for their end
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == self.pid:
                    self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        if self._exit >= 0:
            self._poll.unregister(self._exit)
            os.close(self._exit)
            self._exit = -1
        # A surviving process may hold the streams open for ever.
        drain_timeout = 0.0 if reap_children() else _DRAIN_TIMEOUT
        while self._open_streams and self._read(drain_timeout):
            pass
        return True

    def _read(self, timeout: float | None) -> bool:
        """Read available output for at most `timeout` seconds; return True when anything was ready."""
        ready = self._poll.poll(None if timeout is None else timeout * 1000)
        for fd, _ in ready:
            if fd == self._exit:
                continue
            if fd == 1:
                self.kill_remaining()
                os._exit(1)
            data = os.read(fd, 1 << 16)
            (output := self._open_streams[fd]).extend(data)
            self.is_output_cut |= len(output) > self._max_output
            if len(output) > 2 * self._max_output:
                del output[: -self._max_output]
            if not data:
                self._poll.unregister(fd)
                os.close(fd)
                del self._open_streams[fd]
        return bool(ready)

    def get_output(self, stream: int) -> str:
        return bytes(self._outputs[stream][-self._max_output :]).decode("utf-8", "replace")

    def _signal_processes(self, number: int) -> None:
        target = self.pid
        # Signal only the sandboxed processes: bubblewrap's child is the first of them.
        if self._parent_fd >= 0 and number != _KILL:
            target = next(iter(list_descendants(self.pid)), 0)
        try:
            if target:
                os.killpg(target, number)
        except (ProcessLookupError, PermissionError):
            pass

    def read_parent_report(self) -> tuple[int, int]:
        """Return how many processes were left, and whether the sandboxed command's parent got a signal."""
        os.set_blocking(self._parent_fd, False)
        try:
            fields = os.read(self._parent_fd, 100).split()
        except BlockingIOError:
            fields = []
        if not fields:
            raise WorkspaceBroken(
                self.get_output(1).strip() or f"the sandbox of the clean room ended with exit code {self.code}"
            )
        if self.code is not None and 128 < self.code < 193:
            self.code = 128 - self.code
        if len(fields) == 3 and all(field.lstrip(b"-").isdigit() for field in fields[1:]):
            return int(fields[1]), int(fields[2])
        action = "killed" if len(fields) == 1 else "wrote into the report of"
        self.limit_message = f"clean-room-parent it {action} its parent process"
        return 0, 1

    def kill_remaining(self) -> int:
        """Kill the processes that the command left behind, and return how many there were."""
        self._signal_processes(_KILL)
        killed: set[int] = set()
        deadline = time.monotonic() + _DRAIN_TIMEOUT
        while reap_children() and time.monotonic() < deadline:
            for pid in list_descendants(os.getpid()) if self._parent_fd < 0 else ():  # the kernel kills sandboxed ones
                killed.add(pid)
                try:
                    os.kill(pid, _KILL)
                except (ProcessLookupError, PermissionError):
                    pass
            time.sleep(0.001)
        return len(killed)


def reap_children() -> bool:
    """Reap all children that have ended; return True when others are still running."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def list_descendants(of: int) -> dict[int, list[bytes]]:
    """Return all processes below one, with the fields of /proc/PID/stat from the state on; empty without /proc."""
    rows: dict[int, list[bytes]] = {}
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    row = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            rows[int(name)] = row
            children.setdefault(int(row[1]), []).append(int(name))
    descendants = list(children.get(of, []))
    for pid in descendants:
        descendants += children.get(pid, [])
    return {pid: rows[pid] for pid in descendants}


main()
