"""A host that mngr reaches through a pipe. A provider only has to supply a way to start a command."""

from __future__ import annotations

import os
import select
import time

from mngr.base import shell
from mngr.base.errors import ConnectionLost, MngrError, NotFound, TimedOut, Unreachable
from mngr.base.paths import Home, build_socket_path
from mngr.base.python_process import many_open_files
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol, runtime_checkable

    from mngr.base.shell import ChildProcess, Process, ProcessResult, StartFunction, Stream
else:
    from mngr.base.python_process.light_protocol import Protocol, runtime_checkable  # typing would cost 10 ms

MAX_CALL_SECONDS = 900.0  # the time limit of a call whose caller sets none
MAX_READ_BYTES = 64 * 1024 * 1024  # the largest file that `read` accepts
_MAX_PID_DIGITS = 10
_MAX_LINE_BYTES = 4096  # the longest answer of hold_lock.sh
_CONNECT_SECONDS = 30.0  # the time that a round trip to the host may take
_MAX_HELD_BYTES = 1024 * 1024  # the most text that is held back before a command begins

# mngr parses messages of git and tar, so they must be in English. git must not prompt for a password.
_ENVIRONMENT = (
    "LC_ALL=C GIT_TERMINAL_PROMPT=0; export LC_ALL GIT_TERMINAL_PROMPT; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; "
)
# The command gets all of the input or does not run: a lost connection must not look like the end of the input.
_READ_ALL_INPUT = (
    't=$(mktemp) && cat >"$t" && [ "$(($(wc -c <"$t")))" -eq {size} ] || {{ rm -f "$t"; exit 1; }}; '
    'exec 9<"$t"; rm -f "$t"; {command} <&9 9<&-'
)
# The same for a program. Its text may be secret, so it must not be visible as a command-line argument.
_EVAL_INPUT = 'p=$(cat; echo x); [ "${{#p}}" -eq $(({size} + 1)) ] || exit 1; p=${{p%x}}; exec </dev/null; eval "$p"'
_SEND_SIGNAL = """
send() { kill "-$1" "-$2" 2>/dev/null || kill "-$1" "$2"; }
[ -z "$2" ] || { send "$1" "$2" && exit; }
for one in /proc/[0-9]*; do
    if tr '\\0' ' ' 2>/dev/null <"$one/cmdline" | grep -qF -e "$3$4"; then send "$1" "${one#/proc/}"; fi
done
"""
_READ_FILE = '[ -e "$1" ] || exit 4; [ -f "$1" ] || exit 5; exec head -c "$2" -- "$1"'
_WRITE_FILE = (
    'umask 077; n=$1.$$.new; cat >"$n" && chmod "$2" "$n" && { sync "$n" 2>/dev/null || sync; } && mv -f -- "$n" "$1" || '
    '{ rm -f -- "$n"; exit 1; }'
)


class Transport(Protocol):
    """Starts commands on a host. This is all that a provider must implement for a remote host."""

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        """Return the local command that runs an sh program on the host with the same streams. Raise Unreachable.

        `only` lists K=V pairs that become the program's whole environment; None keeps the host's environment.
        """
        ...

    def make_lost_error(self, stderr: str) -> Unreachable:
        """Return the error for a connection that ended before its command, given its standard error."""
        ...

    def close(self) -> None:
        """Close the connections that the transport holds open."""
        ...


@runtime_checkable
class CommandStarter(Protocol):
    """An optional capability of a transport: start a command in a better way than as a plain local process."""

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> ChildProcess | None:
        """Start the command that `build_argv` returned, or return None if a local process must run it."""
        ...


class RemoteHost:
    """A host other than this machine. mngr reads and writes its files by running commands."""

    is_local = False

    def __init__(self, name: str, provider: str, transport: Transport, home: str, uid: int) -> None:
        self.name = name
        self.provider = provider
        self.transport = transport
        self.home = Home(home)
        self._uid = uid

    @property
    def tmux_socket(self) -> str:
        return build_socket_path(self.home.root, self._uid)

    def adopt_home(self, other: RemoteHost) -> None:
        """Use the home of `other`, the recreated host, so that existing references to this object stay valid."""
        self.home, self._uid = other.home, other._uid

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float | None = None) -> ProcessResult:
        return run(self.transport, argv, stdin=stdin, timeout=timeout, name=self.name)

    def stream(
        self, argv: Sequence[str], *, stdin: Stream = None, stdout: Stream = None, stderr: Stream = None
    ) -> Process[bytes]:
        program = _ENVIRONMENT + "exec " + shell.join(argv)
        return shell.start_process(self.transport.build_argv(program), stdin=stdin, stdout=stdout, stderr=stderr)

    def run_attached(self, argv: Sequence[str]) -> int:
        mark = _generate_mark()
        only, program = _split_env_command(argv)
        # The shell's own messages about its child are hidden. The shell outlives the child to report the exit code.
        prologue = f"trap : INT; printf '{mark}%s;' $$ >&2; exec 3>&2 2>/dev/null"
        program = f"{prologue}; {program} 2>&3 3>&-; printf '{mark}%s;' $? >&3"
        stderr_filter = _StderrFilter(mark.encode())
        try:
            local_code = shell.run_streaming(
                self.transport.build_argv(program, only=only),
                stderr_filter.feed,
                display_argv=[f"@{self.name}", *argv],
                start=_find_start_function(self.transport),
            )
        except BaseException:
            self._signal("INT", mark, stderr_filter)  # An interrupt of mngr is meant for the command.
            raise
        # The reader of the output is gone. Not every transport tells the command so, and its pid may not have arrived.
        if local_code == 141 and len(stderr_filter.numbers) < 2:
            self._signal("PIPE", mark, stderr_filter)
            return local_code
        if len(stderr_filter.numbers) == 2:
            return stderr_filter.numbers[1]
        message = stderr_filter.get_held()
        if stderr_filter.numbers:
            _write_stderr(message)
            raise ConnectionLost(
                f"the connection to {self.name} ended while the command ran",
                "the command may still be running there; check the host: mngr list --hosts",
            )
        raise self.transport.make_lost_error(message.decode("utf-8", "replace").strip())

    def _signal(self, name: str, mark: str, stderr_filter: _StderrFilter) -> None:
        """Send a signal to a command that `run_attached` started, and to its children."""
        # Its pid may not have arrived, so the script can also find it by the mark in its arguments.
        # The mark is passed in two halves, so that the script does not find itself.
        pid, half = str(stderr_filter.numbers[0]) if stderr_filter.numbers else "", len(mark) // 2
        argv = ["sh", "-c", _SEND_SIGNAL, "signal", name, pid, mark[:half], mark[half:]]
        self.run(argv, timeout=30.0)

    def read(self, path: str) -> bytes:
        result = self.run(["sh", "-c", _READ_FILE, "read", path, str(MAX_READ_BYTES + 1)])
        if result.code == 4:
            raise NotFound(f"there is no file {path} on {self.name}")
        if result.code == 5:
            raise MngrError(
                f"{path} on {self.name} is not a regular file",
                f"rename it on {self.name}: mv {path} {path}.old",
            )
        if result.code:
            raise MngrError(
                f"cannot read {path} on {self.name}: {result.error_line}",
                f"check its permissions on {self.name}: ls -l {path}",
            )
        if len(result.out) > MAX_READ_BYTES:
            raise MngrError(
                f"{path} on {self.name} is larger than {MAX_READ_BYTES >> 20} MB",
                f"see what it contains, on {self.name}: head {path}",
            )
        return result.out

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        result = self.run(["sh", "-c", _WRITE_FILE, "write", path, f"{mode:o}"], stdin=data)
        check_write(self.name, path, result)

    def has_path(self, path: str) -> bool:
        return self.run(["sh", "-c", '[ -e "$1" ] || [ -L "$1" ]', "has", path]).code == 0

    def lock(self, path: str, timeout: float = 60.0) -> RemoteLock:
        return RemoteLock(self, path, timeout)

    def build_git_url(self, path: str, git_command: Sequence[str]) -> str:
        # git replaces %s by the service that it wants, upload-pack or receive-pack.
        program = f"{_ENVIRONMENT}exec {shell.join(git_command)} \1 {shell.quote(path)}"
        words = self.transport.build_argv(program)
        escaped = (word.replace("%", "%%").replace(" ", "% ").replace("\1", "%s") for word in words)
        return "ext::" + " ".join(escaped)

    def build_attach_argv(self, argv: Sequence[str]) -> list[str]:
        return self.transport.build_argv("exec " + shell.join(argv), terminal=True)

    def close(self) -> None:
        self.transport.close()


class RemoteLock:
    """A lock that a process on the host holds until its input ends, also when the connection is lost."""

    def __init__(self, host: RemoteHost, path: str, timeout: float) -> None:
        self._host = host
        self._path = path
        self._timeout = timeout
        self._holder: Process[bytes] | None = None

    def __enter__(self) -> RemoteLock:
        argv = ["sh", "-c", scripts.read_program("hold_lock.sh"), "hold_lock.sh", self._path, f"{self._timeout:.0f}"]
        self._holder = self._host.stream(argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=shell.DEVNULL)
        answer = self._read_answer(time.monotonic() + self._timeout + _CONNECT_SECONDS)
        if answer == b"locked":
            return self
        self._holder.kill()  # It may never end by itself.
        self.__exit__()
        if answer == b"busy":
            lock = f"{self._path} on {self._host.name}"
            raise TimedOut(
                f"{lock} was locked by another process for {self._timeout:g}s",
                "wait until the other command has ended, then run this command again",
            )
        if answer.startswith(b"failed "):
            reason = answer[7:].decode("utf-8", "replace")
            raise MngrError(f"{reason} on {self._host.name}", f"check the host: mngr doctor @{self._host.name}")
        raise self._host.transport.make_lost_error("")

    def _read_answer(self, deadline: float) -> bytes:
        """Return the first line of the lock process's output, or a part of it when the deadline passes."""
        assert self._holder is not None and self._holder.stdout is not None
        fd, output = self._holder.stdout.fileno(), b""
        while b"\n" not in output and len(output) < _MAX_LINE_BYTES:
            remaining = deadline - time.monotonic()
            data = os.read(fd, _MAX_LINE_BYTES) if many_open_files.wait_readable([fd], remaining) else b""
            if not data:
                break
            output += data
        return output.partition(b"\n")[0].strip()

    def __exit__(self, *_: object) -> None:
        holder = self._holder
        assert holder is not None and holder.stdin is not None and holder.stdout is not None
        holder.stdin.close()
        holder.stdout.close()
        shell.wait_or_kill(holder, _CONNECT_SECONDS)  # The end of the connection releases the lock, too.


def run(
    transport: Transport,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    name: str = "host",
) -> ProcessResult:
    """Run a command to its end and return its result. Raise Unreachable if the connection is lost.

    The host reports the exit code on standard error behind a random mark. Without the mark the connection was lost.
    """
    mark = _generate_mark()
    command = _format_subshell(argv)
    if stdin:
        command = "(" + _READ_ALL_INPUT.format(size=len(stdin), command=shell.join(argv)) + ")"
    program = f"{_ENVIRONMENT}{command}; printf '{mark}%s;' $? >&2"
    limit = MAX_CALL_SECONDS if timeout is None else timeout
    try:
        result = shell.run(
            transport.build_argv(program),
            stdin=stdin,
            timeout=limit,
            display_argv=[f"@{name}", *argv],
            start=_find_start_function(transport),
        )
    except TimedOut:
        raise Unreachable(f"{name} did not answer within {limit:g}s", "check the hosts: mngr list --hosts") from None
    stderr, separator, code = result.err.rpartition(mark.encode())
    if not separator or not code.endswith(b";") or not is_exit_code(code[:-1]):
        raise transport.make_lost_error(result.err.decode("utf-8", "replace").strip())
    return result.replace(code=int(code[:-1]), err=stderr)


def run_until_failure(
    transport: Transport, steps: Sequence[tuple[Sequence[str], bytes]], *, name: str = "host"
) -> list[ProcessResult]:
    """Run commands, each with its input, in one call until one fails. Return the results of those that ran."""
    mark = _generate_mark()
    program = ""
    for argv, stdin in steps:
        input_pipe = f"printf %s {shell.quote(stdin.decode('utf-8', 'surrogateescape'))} | " if stdin else ""
        program += (
            f"{input_pipe}{_format_subshell(argv)}\ncode=$?; printf '{mark}%s;' $code; printf '{mark}%s;' $code >&2\n"
        )
        program += "[ $code = 0 ] || exit 0\n"
    text = scripts.escape_non_ascii(program)
    try:
        batch = shell.run(
            transport.build_argv(_ENVIRONMENT + _EVAL_INPUT.format(size=len(text))),
            stdin=text.encode(),
            timeout=MAX_CALL_SECONDS,
            display_argv=[f"@{name}", *steps[-1][0]],
            start=_find_start_function(transport),
        )
    except TimedOut:
        raise Unreachable(
            f"{name} did not answer within {MAX_CALL_SECONDS:g}s", "check the hosts: mngr list --hosts"
        ) from None
    outs, errs = batch.out.split(mark.encode()), batch.err.split(mark.encode())
    results: list[ProcessResult] = []
    for index in range(1, min(len(outs), len(errs), len(steps) + 1)):
        code, closed, rest = errs[index].partition(b";")
        if not closed or not is_exit_code(code):
            break
        results.append(shell.ProcessResult(code=int(code), out=outs[index - 1], err=errs[index - 1]))
        outs[index], errs[index] = outs[index].partition(b";")[2], rest
    if len(results) < len(steps) and not (results and results[-1].code):
        raise transport.make_lost_error(errs[-1].decode("utf-8", "replace").strip())
    return results


def _format_subshell(argv: Sequence[str]) -> str:
    """Return a command as a subshell.

    The program of `sh -c` runs in the subshell itself, so that its text is not visible in the process list.
    """
    if list(argv[:2]) == ["sh", "-c"] and len(argv) > 3 and "$0" not in argv[2]:
        return f"(set -- {shell.join(argv[4:])}\n{argv[2]}\n)"
    return f"({shell.join(argv)})"


def check_write(host: str, path: str, result: ProcessResult) -> None:
    """Raise MngrError if a file could not be written."""
    if result.code:
        is_disk_full = "No space left" in result.error_line
        hint = f"free some disk space on {host}" if is_disk_full else f"check the permissions on {host}: ls -ld {path}"
        raise MngrError(f"cannot write {path} on {host}: {result.error_line}", hint)


def _find_start_function(transport: Transport) -> StartFunction | None:
    """Return the transport's own function that starts a command, or None."""
    return transport.start_command if isinstance(transport, CommandStarter) else None


def _split_env_command(argv: Sequence[str]) -> tuple[list[str] | None, str]:
    """Return the variables and the program of `env -i K=V… sh -c PROGRAM NAME ARGS…`.

    For any other command the variables are None. The program then needs no additional shell.
    """
    if list(argv[:2]) != ["env", "-i"]:
        return None, shell.join(argv)
    index = next(index for index in range(2, len(argv)) if "=" not in argv[index])
    only, rest = list(argv[2:index]), argv[index:]
    if list(rest[:2]) != ["sh", "-c"]:
        return only, shell.join(rest)
    return only, f"(set -- {shell.join(rest[4:])}\n{rest[2]}\n)"


def _generate_mark() -> str:
    return f"mngr-{os.urandom(8).hex()}:"


def is_exit_code(text: bytes, max_digits: int = 3) -> bool:
    """True when the text is a number with at most `max_digits` digits. A host can send anything."""
    return 0 < len(text) <= max_digits and text.isdigit()


class _StderrFilter:
    """Forwards a command's standard error and removes `MARK pid;` at its begin and `MARK code;` at its end."""

    def __init__(self, mark: bytes) -> None:
        self.numbers: list[int] = []
        self._mark = mark
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Forward the data that cannot be part of a mark, and hold back the rest."""
        self._held += data
        while (position := self._held.find(self._mark)) >= 0:
            number, closed, rest = self._held[position + len(self._mark) :].partition(b";")
            if not closed and len(number) <= _MAX_PID_DIGITS:
                break
            _write_stderr(self._held[:position])
            self._held = number + closed + rest
            if closed and is_exit_code(number, 3 if self.numbers else _MAX_PID_DIGITS):
                self.numbers.append(int(number))
                self._held = rest
        # The command has not begun. If it never does, the held text explains why.
        if not self.numbers and len(self._held) < _MAX_HELD_BYTES:
            return
        size = len(self._held)
        if position < 0:
            max_length = min(len(self._mark) - 1, size)
            position = next(
                (size - length for length in range(max_length, 0, -1) if self._mark.startswith(self._held[-length:])),
                size,
            )
        _write_stderr(self._held[:position])
        self._held = self._held[position:]

    def get_held(self) -> bytes:
        """Return the data that was held back, when no mark can follow any more."""
        return self._held


def _write_stderr(data: bytes) -> None:
    """Write all of `data` to standard error, also when another process such as ssh has made it non-blocking."""
    remaining = memoryview(data)
    while remaining:
        try:
            remaining = remaining[os.write(2, remaining) :]
        except BlockingIOError:
            select.select([], [2], [])
