"""Starts processes. No other module of mngr starts one."""

from __future__ import annotations

import os
import select
import sys
import time

from mngr.base.errors import MngrError, ServiceUnavailable, TimedOut
from mngr.base.model import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import IO, Any, NoReturn, Protocol

    Stream = int | IO[bytes] | None
    Process = subprocess.Popen

    class ChildProcess(Protocol):
        """A command that was started."""

        def wait(self) -> int: ...
        def kill(self) -> None: ...

    StartFunction = Callable[[Sequence[str], tuple[int, int, int], float | None], ChildProcess | None]

PIPE = -1  # The values of subprocess, whose import costs 6 ms and is done only where a stream is needed.
DEVNULL = -3
MAX_OUTPUT_BYTES = 1024 * 1024 * 1024  # A command that writes more is killed: a host could send data forever.
_UNQUOTED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")
_RESTORED_SIGNALS = (13, 25)  # SIGPIPE and SIGXFSZ: Python ignores them, its children must not.

tracer: Callable[[str], None] | None = None  # Receives a line for every process when the user asks for a trace.

INSTALL_HINTS = {
    "git": "apt-get install git (or: brew install git)",
    "tmux": "apt-get install tmux (or: brew install tmux)",
    "docker": "apt-get install docker.io (or: brew install docker); or use podman: mngr config set providers.docker.program podman",
    "podman": "apt-get install podman (or: brew install podman)",
    "bwrap": "apt-get install bubblewrap",
}


class ProcessResult(Struct):
    """The exit code and the output of a command."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Return standard output as text, without the final line end."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def error_line(self) -> str:
        """Return the last line of standard error (or output), which usually says why the command failed."""
        text = (self.err or self.out).decode("utf-8", "replace").strip()
        return text.splitlines()[-1] if text else f"exit code {self.code}"


class ProgramMissing(ServiceUnavailable):
    """A program that mngr needs is not installed."""

    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} is not installed",
            INSTALL_HINTS.get(program, f"install {program}") + "; then: mngr doctor",
        )
        self.program = program


def suggest_disk_check(path: str, host: str | None = None) -> str:
    """Return the hint for a write that failed: the commands that show the free space and the permissions."""
    place = f" on {host}" if host else ""
    return f"check the free space and the permissions{place}: df -h {quote(path)}; ls -ld {quote(path)}"


def quote(word: str) -> str:
    """Return `word` quoted as one word of a POSIX shell command."""
    return word if word and _UNQUOTED_CHARS.issuperset(word) else "'" + word.replace("'", "'\\''") + "'"


def join(argv: Sequence[str]) -> str:
    """Return `argv` as one shell command."""
    return " ".join(quote(word) for word in argv)


def get_path_without_relative_entries() -> str:
    """Return PATH without relative entries, which would name an agent's programs in the agent's directory."""
    return ":".join(
        directory for directory in os.environ.get("PATH", os.defpath).split(":") if os.path.isabs(directory)
    )


def abbreviate(argv: Sequence[str]) -> str:
    """Return `argv` on one short line for people. The text of an `sh -c` program is omitted."""
    words = list(argv)
    start = 1 if words[0].startswith("@") else 0
    if words[start : start + 2] == ["sh", "-c"] and len(words) > start + 3:
        words[start + 1 : start + 3] = []
    line = " ".join(quote(word if len(word) <= 100 else word[:97] + "...") for word in words)
    return redact_password(line).replace("\n", "\\n")


def redact_password(text: str) -> str:
    """Return `text` with the user and password removed from its URLs."""
    import re

    return re.sub(r"(?<=://)[^/@\s]+@", "…@", text)


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    display_argv: Sequence[str] | None = None,
    start: StartFunction | None = None,
    max_bytes: int = MAX_OUTPUT_BYTES,
) -> ProcessResult:
    """Run a command to its end and return its exit code and output. A failed command raises no error.

    Raise MngrError if the command writes more than `max_bytes`, and TimedOut after `timeout` seconds.
    `display_argv` replaces `argv` in traces and messages, for a command that runs on another host.
    `start` may start the command in a cheaper way than a new local process; it returns None if it cannot.
    """
    started = time.monotonic()
    in_r = _open_input(stdin)
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    streams = in_r, out_w, err_w
    try:
        child = start(argv, streams, timeout) if start else None
        child = child or spawn(argv, streams, env, is_leader=timeout is not None)
    except BaseException as error:
        for fd in (out_r, err_r):
            os.close(fd)
        if isinstance(error, TimeoutError):
            raise _timeout_error(argv, timeout) from None
        raise
    finally:
        for fd in streams:
            os.close(fd)
    try:
        out, err = _read_streams(out_r, err_r, timeout, max_bytes)
    except BaseException as error:
        child.kill()
        if isinstance(error, TimeoutError):
            raise _timeout_error(argv, timeout) from None
        if isinstance(error, BufferError):
            raise MngrError(
                f"{(display_argv or argv)[0]} wrote more than {max_bytes >> 20} MB of output, so mngr ended it",
                "limit the output of the command, for example with: | head -c 1000000",
            ) from None
        raise
    code = child.wait()
    if tracer is not None:
        tracer(f"{abbreviate(display_argv or argv)} (exit {code}, {(time.monotonic() - started) * 1000:.0f} ms)")
    return ProcessResult(code=code, out=out, err=err)


def _open_input(data: bytes) -> int:
    """Return a descriptor that holds all of `data` already.

    If mngr is killed, the command still reads the complete input and not just a part of it.
    """
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        is_complete = os.write(writer, data) == len(data)
    except BlockingIOError:
        is_complete = False
    os.close(writer)
    if is_complete:
        return reader
    os.close(reader)
    with _open_unnamed_file() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _open_unnamed_file() -> IO[bytes]:
    """Return a temporary file without a name, in memory if possible because a disk may be full."""
    if sys.platform == "linux":
        return open(os.memfd_create("input"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


class _SpawnedProcess:
    """A local child process. If it leads a process group, `kill` also ends its children."""

    def __init__(self, pid: int, is_leader: bool) -> None:
        self._pid = pid
        self._is_leader = is_leader

    def wait(self) -> int:
        return _normalize_exit_code(os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]))

    def kill(self) -> None:
        os.kill(-self._pid if self._is_leader else self._pid, 9)
        os.waitpid(self._pid, 0)


def spawn(
    argv: Sequence[str],
    streams: tuple[int, int, int],
    env: Mapping[str, str] | None,
    *,
    is_leader: bool,
    terminal: str = "",
) -> ChildProcess:
    """Start a process with these streams. With `is_leader`, `kill` also ends its children.

    `terminal` is the path of a terminal that becomes the process's own, also as each stream that is -1.
    """
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_DUP2, fd, target_fd) if fd >= 0 else (os.POSIX_SPAWN_OPEN, target_fd, terminal, os.O_RDWR, 0)
        for target_fd, fd in enumerate(streams)
        if fd != target_fd
    ]
    variables = os.environ if env is None else env
    group: dict[str, Any] = {}
    if is_leader:
        group = {"setpgroup": 0}
    elif terminal:
        group = {"setsid": True}
    try:
        pid = os.posix_spawnp(
            argv[0], list(argv), variables, file_actions=actions, setsigdef=_RESTORED_SIGNALS, **group
        )
    except OSError as error:
        raise _start_error(argv[0], error) from None
    return _SpawnedProcess(pid, is_leader)


def _timeout_error(argv: Sequence[str], timeout: float | None) -> TimedOut:
    return TimedOut(f"{argv[0]} did not answer within {timeout:g}s")


def _read_streams(out_r: int, err_r: int, timeout: float | None, max_bytes: int) -> tuple[bytes, bytes]:
    """Read both streams to their end and close them.

    Raise TimeoutError after `timeout` seconds and BufferError after more than `max_bytes`.
    """
    parts: dict[int, list[bytes]] = {out_r: [], err_r: []}
    poll = select.poll()
    open_fds = {out_r, err_r}
    for fd in open_fds:
        poll.register(fd, select.POLLIN)
    deadline = None if timeout is None else time.monotonic() + timeout
    size = 0
    try:
        while open_fds:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1000
            ready = poll.poll(wait)
            if not ready and deadline is not None:
                raise TimeoutError
            for fd, _ in ready:
                data = os.read(fd, 65536)
                size += len(data)
                if size > max_bytes:
                    raise BufferError
                parts[fd].append(data)
                if not data:
                    poll.unregister(fd)
                    os.close(fd)
                    open_fds.discard(fd)
    finally:
        for fd in open_fds:
            os.close(fd)
    return b"".join(parts[out_r]), b"".join(parts[err_r])


def run_streaming(
    argv: Sequence[str],
    watch: Callable[[bytes], None],
    display_argv: Sequence[str] | None = None,
    start: StartFunction | None = None,
) -> int:
    """Run a command with mngr's own input and output, and return its exit code.

    `watch` receives the command's standard error as it arrives. See `run` for the other parameters.
    """
    if tracer is not None:
        tracer(f"{abbreviate(display_argv or argv)} (started)")
    err_r, err_w = os.pipe()
    out_r, out_w = os.pipe() if os.isatty(1) else (-1, 1)  # A terminal that stalls would stall a shared connection.
    streams = 0, out_w, err_w
    readers = {err_r: watch} if out_r < 0 else {out_r: _write_stdout, err_r: watch}
    try:
        try:
            child = start(argv, streams, None) if start else None
            child = child or spawn(argv, streams, None, is_leader=False)
        finally:
            for fd in {out_w, err_w} - {1}:
                os.close(fd)
        try:
            _forward_output(readers)
        except BaseException:
            child.kill()
            raise
    finally:
        for fd in readers:
            os.close(fd)
    return child.wait()


def _forward_output(sources: dict[int, Callable[[bytes], None]]) -> None:
    """Pass the data of each descriptor to its function, until all descriptors have ended."""
    poll = select.poll()
    for fd in sources:
        poll.register(fd, select.POLLIN)
    open_count = len(sources)
    while open_count:
        for fd, _ in poll.poll():
            if data := os.read(fd, 65536):
                sources[fd](data)
            else:
                poll.unregister(fd)
                open_count -= 1


def _write_stdout(data: bytes) -> None:
    """Write all of `data` to standard output."""
    while data:
        data = data[os.write(1, data) :]


def start_process(
    argv: Sequence[str],
    *,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a command and return its process at once."""
    import subprocess

    if tracer is not None:
        tracer(f"{abbreviate(argv)} (started)")
    try:
        return subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=new_session
        )
    except OSError as error:
        raise _start_error(argv[0], error) from None


def _start_error(program: str, error: OSError) -> MngrError:
    if isinstance(error, FileNotFoundError):
        return ProgramMissing(program)
    hint = (
        "shorten the command line: it is too long for this system"
        if error.errno == 7
        else "check this machine: mngr doctor"
    )
    return MngrError(f"{program} could not be started: {error.strerror}", hint)


def wait_process(process: subprocess.Popen[bytes]) -> int:
    """Wait for the process and return its exit code, or 128+N if signal N ended it."""
    return _normalize_exit_code(process.wait())


def wait_or_kill(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the process to end, and kill it after `seconds`."""
    import subprocess

    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_or_kill_group(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for a process that leads its session, and return its exit code. After `seconds`, kill it and its children."""
    import subprocess

    try:
        return _normalize_exit_code(process.wait(seconds))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return None


def exec_program(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Replace this process by the program."""
    try:
        os.execvpe(argv[0], list(argv), dict(env) if env is not None else os.environ)
    except FileNotFoundError:
        raise ProgramMissing(argv[0]) from None


def _normalize_exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code
