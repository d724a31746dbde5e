"""The one place that starts processes."""

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

PIPE = -1  # as in subprocess, which is imported only where a stream is needed: it costs 6 ms
DEVNULL = -3
MAX_OUTPUT_BYTES = 1024 * 1024 * 1024  # bytes that a command may write to us: a host could send for ever
_UNQUOTED_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-")
_RESTORED_SIGNALS = (13, 25)  # SIGPIPE and SIGXFSZ, which Python ignores and its children must not

tracer: Callable[[str], None] | None = None  # told of every process when the user wants to see them

INSTALL_HINTS = {
    "git": "apt-get install git (or: brew install git)",
    "tmux": "apt-get install tmux (or: brew install tmux)",
    "docker": "apt-get install docker.io (or: brew install docker), or use podman: [providers.podman]",
    "podman": "apt-get install podman (or: brew install podman)",
    "bwrap": "apt-get install bubblewrap",
}


class ProcessResult(Struct):
    """How a command ended and what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output without the line end that closes it."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def error_line(self) -> str:
        """The last thing it said about why it failed."""
        said = (self.err or self.out).decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else f"exit code {self.code}"


class ProgramMissing(ServiceUnavailable):
    """A program we need is not installed."""

    def __init__(self, program: str) -> None:
        super().__init__(
            f"{program} is not installed",
            INSTALL_HINTS.get(program, f"install {program}") + "; then: mngr doctor",
        )
        self.program = program


def quote(word: str) -> str:
    """`word` as one word of a POSIX shell."""
    return word if word and _UNQUOTED_CHARS.issuperset(word) else "'" + word.replace("'", "'\\''") + "'"


def join(argv: Sequence[str]) -> str:
    """`argv` as one shell command."""
    return " ".join(quote(word) for word in argv)


def get_absolute_search_path() -> str:
    """The PATH without what depends on where one is: in an agent's directory that would be the agent's."""
    return ":".join(place for place in os.environ.get("PATH", os.defpath).split(":") if os.path.isabs(place))


def abbreviate(argv: Sequence[str]) -> str:
    """`argv` on one line for people; a program text is shown by the name it is run under."""
    words = list(argv)
    at = 1 if words[0].startswith("@") else 0
    if words[at : at + 2] == ["sh", "-c"] and len(words) > at + 3:
        words[at + 1 : at + 3] = []
    line = " ".join(quote(word if len(word) <= 100 else word[:97] + "...") for word in words)
    return redact_password(line).replace("\n", "\\n")


def redact_password(text: str) -> str:
    """`text` with what stands before the @ of a URL taken out."""
    import re

    return re.sub(r"(?<=://)[^/@\s]+@", "…@", text)


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    shown: Sequence[str] | None = None,
    begin: StartFunction | None = None,
    most: int = MAX_OUTPUT_BYTES,
) -> ProcessResult:
    """Run to the end and capture both streams; a failed command is a Result, not an exception.

    One that writes more than `most` bytes is killed, and that is a MngrError. `shown` is what people are told was run, where
    that is one thing and how it got to its host another. `begin` may know a shorter way to the same than a process here.
    """
    began = time.monotonic()
    in_r = _open_input(stdin)
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    streams = in_r, out_w, err_w
    try:
        child = begin(argv, streams, timeout) if begin else None
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
        out, err = _read_streams(out_r, err_r, timeout, most)
    except BaseException as error:
        child.kill()
        if isinstance(error, TimeoutError):
            raise _timeout_error(argv, timeout) from None
        if isinstance(error, BufferError):
            raise MngrError(
                f"{(shown or argv)[0]} was ended: it wrote more than {most >> 20} MB", "look at what it does"
            ) from None
        raise
    code = child.wait()
    if tracer is not None:
        tracer(f"{abbreviate(shown or argv)} (exit {code}, {(time.monotonic() - began) * 1000:.0f} ms)")
    return ProcessResult(code=code, out=out, err=err)


def _open_input(data: bytes) -> int:
    """A descriptor that has all of it before anybody reads: who is killed while he writes would leave a half behind."""
    if not data:
        return os.open(os.devnull, os.O_RDONLY)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        done = os.write(writer, data) == len(data)
    except BlockingIOError:
        done = False
    os.close(writer)
    if done:
        return reader
    os.close(reader)
    with _open_unnamed_file() as file:
        file.write(data)
        file.seek(0)
        return os.dup(file.fileno())


def _open_unnamed_file() -> IO[bytes]:
    """In memory where that can be had: a disk may be full."""
    if sys.platform == "linux":
        return open(os.memfd_create("input"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


class _SpawnedProcess:
    """A process of our own; its children end with it if it leads a group."""

    def __init__(self, pid: int, is_leader: bool) -> None:
        self._pid = pid
        self._is_leader = is_leader

    def wait(self) -> int:
        return _normalize_exit_code(os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1]))

    def kill(self) -> None:
        os.kill(-self._pid if self._is_leader else self._pid, 9)
        os.waitpid(self._pid, 0)


def spawn(
    argv: Sequence[str], streams: tuple[int, int, int], env: Mapping[str, str] | None, *, is_leader: bool
) -> ChildProcess:
    """Start a process with these streams; with `is_leader` its children end with it when it is killed."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(streams) if fd != at]
    variables = os.environ if env is None else env
    group: dict[str, Any] = {"setpgroup": 0} if is_leader else {}
    try:
        pid = os.posix_spawnp(
            argv[0], list(argv), variables, file_actions=actions, setsigdef=_RESTORED_SIGNALS, **group
        )
    except OSError as error:
        raise _start_error(argv[0], error) from None
    return _SpawnedProcess(pid, is_leader)


def _timeout_error(argv: Sequence[str], timeout: float | None) -> TimedOut:
    return TimedOut(f"{argv[0]} did not answer within {timeout:g}s")


def _read_streams(out_r: int, err_r: int, timeout: float | None, most: int) -> tuple[bytes, bytes]:
    """Drain both streams at once; closes them; TimeoutError when it takes too long, BufferError when it is too much."""
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
                if size > most:
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
    shown: Sequence[str] | None = None,
    begin: StartFunction | None = None,
) -> int:
    """Run with our own input and output; what it says on standard error goes to `watch`, as it comes; the exit code."""
    if tracer is not None:
        tracer(f"{abbreviate(shown or argv)} (started)")
    err_r, err_w = os.pipe()
    out_r, out_w = os.pipe() if os.isatty(1) else (-1, 1)  # a terminal that stalls would stall a shared connection
    streams = 0, out_w, err_w
    ours = {err_r: watch} if out_r < 0 else {out_r: _write_stdout, err_r: watch}
    try:
        try:
            child = begin(argv, streams, None) if begin else None
            child = child or spawn(argv, streams, None, is_leader=False)
        finally:
            for fd in {out_w, err_w} - {1}:
                os.close(fd)
        try:
            _forward_output(ours)
        except BaseException:
            child.kill()
            raise
    finally:
        for fd in ours:
            os.close(fd)
    return child.wait()


def _forward_output(sources: dict[int, Callable[[bytes], None]]) -> None:
    """What comes, to whom it is for, until nothing more comes from any."""
    poll = select.poll()
    for fd in sources:
        poll.register(fd, select.POLLIN)
    left = len(sources)
    while left:
        for fd, _ in poll.poll():
            if data := os.read(fd, 65536):
                sources[fd](data)
            else:
                poll.unregister(fd)
                left -= 1


def _write_stdout(data: bytes) -> None:
    """On our standard output."""
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
    """Start and return at once."""
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
    hint = "shorten the command" if error.errno == 7 else None
    return MngrError(f"{program} could not be started: {error.strerror}", hint)


def wait_process(process: subprocess.Popen[bytes]) -> int:
    """The exit code, 128+N on signal N."""
    return _normalize_exit_code(process.wait())


def wait_or_kill(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for its end, and end it after so many seconds."""
    import subprocess

    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def exec_program(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Become this program."""
    try:
        os.execvpe(argv[0], list(argv), dict(env) if env is not None else os.environ)
    except FileNotFoundError:
        raise ProgramMissing(argv[0]) from None


def _normalize_exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code
