"""A host at the other end of a pipe: everything we do there, once for all providers, on one ability: start a command."""

from __future__ import annotations

import os
import select
import time

from mngr.base import file_descriptors, shell
from mngr.base.errors import ConnectionLost, MngrError, NotFound, TimedOut, Unreachable
from mngr.base.paths import Home, build_socket_path
from mngr.host import scripts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from mngr.base.shell import Process, ProcessResult, StartFunction, Stream
else:
    Protocol = object  # typing would cost 10 ms

MAX_CALL_SECONDS = 900.0  # seconds that a call may take where its caller sets no limit
MAX_READ_BYTES = 64 * 1024 * 1024  # bytes of a file that `read` takes
_MAX_PID_DIGITS = 10  # of the number of a process
_MAX_LINE_BYTES = 4096  # bytes of what a lock says
_CONNECT_SECONDS = 30.0  # seconds that a host may take for the way
_MAX_HELD_BYTES = 1024 * 1024  # bytes of what a host says before a command begins

# We read what git and tar say; a git in there asks nobody.
_ENVIRONMENT = (
    "LC_ALL=C GIT_TERMINAL_PROMPT=0; export LC_ALL GIT_TERMINAL_PROMPT; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; "
)
# All of the input or nothing: a connection that ends must not look like the end of the text.
_READ_ALL_INPUT = (
    't=$(mktemp) && cat >"$t" && [ "$(($(wc -c <"$t")))" -eq {size} ] || {{ rm -f "$t"; exit 1; }}; '
    'exec 9<"$t"; rm -f "$t"; {command} <&9 9<&-'
)
# The same for a program: what it says may be secret, so it is no word of a command.
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
    """How to start a command on a host: all that a provider has to bring."""

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        """What to run here so that the sh program runs there, with these streams; raises Unreachable.

        `only`: K=V, all that the program shall find in its environment; None for what there is.
        """
        ...

    def make_lost_error(self, said: str) -> Unreachable:
        """The error for a connection that ended before its command did, after it said this."""
        ...

    def close(self) -> None:
        """Give back what it holds open."""
        ...


class RemoteHost:
    """Not this machine; its files are reached by commands."""

    is_local = False

    def __init__(self, name: str, provider: str, wire: Transport, home: str, uid: int) -> None:
        self.name = name
        self.provider = provider
        self.transport = wire
        self.home = Home(home)
        self._uid = uid

    @property
    def tmux_socket(self) -> str:
        return build_socket_path(self.home.root, self._uid)

    def adopt_home(self, other: RemoteHost) -> None:
        """It was made anew as that other one; whoever has it in use goes on with it."""
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
        # The shell's own remarks, on how its child ended, are not the command's; and it outlives the child, to say so.
        before = f"trap : INT; printf '{mark}%s;' $$ >&2; exec 3>&2 2>/dev/null"
        program = f"{before}; {program} 2>&3 3>&-; printf '{mark}%s;' $? >&3"
        said = _StderrFilter(mark.encode())
        try:
            ended = shell.run_streaming(
                self.transport.build_argv(program, only=only),
                said.feed,
                shown=[f"@{self.name}", *argv],
                begin=_find_fast_start(self.transport),
            )
        except BaseException:
            self._signal("INT", mark, said)  # whoever interrupts us means the command
            raise
        # Nobody reads what it writes: not every wire tells it so, and what it wrote can be faster than its number.
        if ended == 141 and len(said.numbers) < 2:
            self._signal("PIPE", mark, said)
            return ended
        if len(said.numbers) == 2:
            return said.numbers[1]
        held = said.get_held()
        if said.numbers:
            _write_stderr(held)
            raise ConnectionLost(f"the connection to {self.name} ended while the command ran", "it may run on there")
        raise self.transport.make_lost_error(held.decode("utf-8", "replace").strip())

    def _signal(self, name: str, mark: str, said: _StderrFilter) -> None:
        """Send a signal to a command that was started by `run_here`, and to its children."""
        # Its number may still be on the way; the words of its shell have the mark, and ours must not.
        pid, half = str(said.numbers[0]) if said.numbers else "", len(mark) // 2
        words = ["sh", "-c", _SEND_SIGNAL, "signal", name, pid, mark[:half], mark[half:]]
        self.run(words, timeout=30.0)

    def read(self, path: str) -> bytes:
        result = self.run(["sh", "-c", _READ_FILE, "read", path, str(MAX_READ_BYTES + 1)])
        if result.code == 4:
            raise NotFound(f"there is no file {path} on {self.name}")
        if result.code == 5:
            raise MngrError(f"{path} on {self.name} is not a file", "look at it, and take it away")
        if result.code:
            raise MngrError(f"cannot read {path} on {self.name}: {result.error_line}")
        if len(result.out) > MAX_READ_BYTES:
            raise MngrError(f"{path} on {self.name} is larger than {MAX_READ_BYTES >> 20} MB", "look at it there")
        return result.out

    def write(self, path: str, data: bytes, mode: int = 0o600) -> None:
        result = self.run(["sh", "-c", _WRITE_FILE, "write", path, f"{mode:o}"], stdin=data)
        check_write(self.name, path, result)

    def has_path(self, path: str) -> bool:
        return self.run(["sh", "-c", '[ -e "$1" ] || [ -L "$1" ]', "has", path]).code == 0

    def lock(self, path: str, timeout: float = 60.0) -> RemoteLock:
        return RemoteLock(self, path, timeout)

    def build_git_url(self, path: str, by: Sequence[str] = ("git",)) -> str:
        # git names the service that it wants (upload-pack, receive-pack) where %s stands.
        program = f"{_ENVIRONMENT}exec {shell.join(by)} \1 {shell.quote(path)}"
        words = self.transport.build_argv(program)
        escaped = (word.replace("%", "%%").replace(" ", "% ").replace("\1", "%s") for word in words)
        return "ext::" + " ".join(escaped)

    def build_attach_argv(self, argv: Sequence[str]) -> list[str]:
        return self.transport.build_argv("exec " + shell.join(argv), terminal=True)

    def close(self) -> None:
        self.transport.close()


class RemoteLock:
    """Held by a process there until its input ends, be it because the connection is lost."""

    def __init__(self, host: RemoteHost, path: str, timeout: float) -> None:
        self._host = host
        self._path = path
        self._timeout = timeout
        self._holder: Process[bytes] | None = None

    def __enter__(self) -> RemoteLock:
        argv = ["sh", "-c", scripts.read_program("lock.sh"), "lock.sh", self._path, f"{self._timeout:.0f}"]
        self._holder = self._host.stream(argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=shell.DEVNULL)
        answer = self._read_answer(time.monotonic() + self._timeout + _CONNECT_SECONDS)
        if answer == b"locked":
            return self
        self._holder.kill()  # it may never end by itself
        self.__exit__()
        if answer == b"busy":
            where = f"{self._path} on {self._host.name}"
            raise TimedOut(f"{where} was locked by another process for {self._timeout:g}s", "try again")
        if answer.startswith(b"failed "):
            said = answer[7:].decode("utf-8", "replace")
            raise MngrError(f"{said} on {self._host.name}", "check the directory's permissions there")
        raise self._host.transport.make_lost_error("")

    def _read_answer(self, deadline: float) -> bytes:
        """The first line of what it says; less when no more comes in time."""
        assert self._holder is not None and self._holder.stdout is not None
        fd, said = self._holder.stdout.fileno(), b""
        while b"\n" not in said and len(said) < _MAX_LINE_BYTES:
            left = deadline - time.monotonic()
            data = os.read(fd, _MAX_LINE_BYTES) if file_descriptors.wait_readable([fd], left) else b""
            if not data:
                break
            said += data
        return said.partition(b"\n")[0].strip()

    def __exit__(self, *_: object) -> None:
        holder = self._holder
        assert holder is not None and holder.stdin is not None and holder.stdout is not None
        holder.stdin.close()
        holder.stdout.close()
        shell.wait_or_kill(holder, _CONNECT_SECONDS)  # it is released at the latest when the connection goes


def run(
    wire: Transport,
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    name: str = "host",
) -> ProcessResult:
    """Run to the end; the exit code comes back in a form of ours, so that none means the connection was lost."""
    mark = _generate_mark()
    command = _format_subshell(argv)
    if stdin:
        command = "(" + _READ_ALL_INPUT.format(size=len(stdin), command=shell.join(argv)) + ")"
    program = f"{_ENVIRONMENT}{command}; printf '{mark}%s;' $? >&2"
    limit = MAX_CALL_SECONDS if timeout is None else timeout
    try:
        result = shell.run(
            wire.build_argv(program),
            stdin=stdin,
            timeout=limit,
            shown=[f"@{name}", *argv],
            begin=_find_fast_start(wire),
        )
    except TimedOut:
        raise Unreachable(f"{name} did not answer within {limit:g}s", "see: mngr list --hosts") from None
    said, found, code = result.err.rpartition(mark.encode())
    if not found or not code.endswith(b";") or not is_exit_code(code[:-1]):
        raise wire.make_lost_error(result.err.decode("utf-8", "replace").strip())
    return result.replace(code=int(code[:-1]), err=said)


def run_until_failure(
    wire: Transport, steps: Sequence[tuple[Sequence[str], bytes]], *, name: str = "host"
) -> list[ProcessResult]:
    """Run commands, each with its input, in one call until one fails; the results of those that were run."""
    mark = _generate_mark()
    program = ""
    for argv, stdin in steps:
        told = f"printf %s {shell.quote(stdin.decode('utf-8', 'surrogateescape'))} | " if stdin else ""
        program += f"{told}{_format_subshell(argv)}\ncode=$?; printf '{mark}%s;' $code; printf '{mark}%s;' $code >&2\n"
        program += "[ $code = 0 ] || exit 0\n"
    text = scripts.escape_non_ascii(program)
    try:
        done = shell.run(
            wire.build_argv(_ENVIRONMENT + _EVAL_INPUT.format(size=len(text))), stdin=text.encode(), timeout=MAX_CALL_SECONDS,
            shown=[f"@{name}", *steps[-1][0]], begin=_find_fast_start(wire),
        )  # fmt: skip
    except TimedOut:
        raise Unreachable(f"{name} did not answer within {MAX_CALL_SECONDS:g}s", "see: mngr list --hosts") from None
    outs, errs = done.out.split(mark.encode()), done.err.split(mark.encode())
    results: list[ProcessResult] = []
    for at in range(1, min(len(outs), len(errs), len(steps) + 1)):
        code, closed, rest = errs[at].partition(b";")
        if not closed or not is_exit_code(code):
            break
        results.append(shell.ProcessResult(code=int(code), out=outs[at - 1], err=errs[at - 1]))
        outs[at], errs[at] = outs[at].partition(b";")[2], rest
    if len(results) < len(steps) and not (results and results[-1].code):
        raise wire.make_lost_error(errs[-1].decode("utf-8", "replace").strip())
    return results


def _format_subshell(argv: Sequence[str]) -> str:
    """A command as a subshell; a program of sh needs none of its own, where everybody could read its words."""
    if list(argv[:2]) == ["sh", "-c"] and len(argv) > 3 and "$0" not in argv[2]:
        return f"(set -- {shell.join(argv[4:])}\n{argv[2]}\n)"
    return f"({shell.join(argv)})"


def check_write(host: str, path: str, result: ProcessResult) -> None:
    """MngrError when a file could not be written."""
    if result.code:
        full = "No space left" in result.error_line
        hint = "make room there and try again" if full else "check the directory's permissions there"
        raise MngrError(f"cannot write {path} on {host}: {result.error_line}", hint)


def _find_fast_start(wire: Transport) -> StartFunction | None:
    """A wire's own way to start what its `argv` gave without a process here, if it has one."""
    return getattr(wire, "begin", None)


def _split_env_command(argv: Sequence[str]) -> tuple[list[str] | None, str]:
    """The variables and the program of `env -i K=V… sh -c PROGRAM NAME ARGS…`, which then needs no shell of its own."""
    if list(argv[:2]) != ["env", "-i"]:
        return None, shell.join(argv)
    at = next(at for at in range(2, len(argv)) if "=" not in argv[at])
    only, rest = list(argv[2:at]), argv[at:]
    if list(rest[:2]) != ["sh", "-c"]:
        return only, shell.join(rest)
    return only, f"(set -- {shell.join(rest[4:])}\n{rest[2]}\n)"


def _generate_mark() -> str:
    return f"mngr-{os.urandom(8).hex()}:"


def is_exit_code(text: bytes, most: int = 3) -> bool:
    """Whether this is an exit code, or a number with so many digits at most: a host can send anything."""
    return 0 < len(text) <= most and text.isdigit()


class _StderrFilter:
    """Standard error on its way to ours, without the numbers of ours in it: `MARK pid;` first, `MARK code;` last."""

    def __init__(self, mark: bytes) -> None:
        self.numbers: list[int] = []
        self._mark = mark
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Pass on what cannot be part of a mark."""
        self._held += data
        while (at := self._held.find(self._mark)) >= 0:
            number, closed, rest = self._held[at + len(self._mark) :].partition(b";")
            if not closed and len(number) <= _MAX_PID_DIGITS:
                break
            _write_stderr(self._held[:at])
            self._held = number + closed + rest
            if closed and is_exit_code(number, 3 if self.numbers else _MAX_PID_DIGITS):
                self.numbers.append(int(number))
                self._held = rest
        # Nothing of the command's: if it never begins, this says why.
        if not self.numbers and len(self._held) < _MAX_HELD_BYTES:
            return
        size = len(self._held)
        if at < 0:
            most = min(len(self._mark) - 1, size)
            at = next((size - n for n in range(most, 0, -1) if self._mark.startswith(self._held[-n:])), size)
        _write_stderr(self._held[:at])
        self._held = self._held[at:]

    def get_held(self) -> bytes:
        """What was held back, for no mark will come any more."""
        return self._held


def _write_stderr(data: bytes) -> None:
    """To standard error, all of it. ssh may share it and set it so that it does not wait, so we wait ourselves."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(2, left) :]
        except BlockingIOError:
            select.select([], [2], [])
