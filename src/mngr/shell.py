"""The one place that starts processes."""

from __future__ import annotations

import os
import re
import subprocess

from mngr.errors import MngrError, TimedOut
from mngr.model import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import IO, NoReturn

    Stream = int | IO[bytes] | None

PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL
Process = subprocess.Popen
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)

INSTALL = {
    "git": "apt-get install git (or: brew install git)",
    "tmux": "apt-get install tmux (or: brew install tmux)",
}


class Result(Record):
    """How a command ended and what it wrote."""

    code: int
    out: bytes
    err: bytes

    @property
    def text(self) -> str:
        """Standard output without the line end that closes it."""
        return self.out.decode("utf-8", "surrogateescape").removesuffix("\n")

    @property
    def problem(self) -> str:
        """The last thing it said about why it failed."""
        said = (self.err or self.out).decode("utf-8", "replace").strip()
        return said.splitlines()[-1] if said else f"exit code {self.code}"


class ProgramMissing(MngrError):
    """A program we need is not installed."""

    def __init__(self, program: str) -> None:
        super().__init__(f"{program} is not installed", INSTALL.get(program, f"install {program}") + "; then: mngr doctor")
        self.program = program


def quote(word: str) -> str:
    """`word` as one word of a POSIX shell."""
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def join(argv: Sequence[str]) -> str:
    """`argv` as one shell command."""
    return " ".join(quote(word) for word in argv)


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    timeout: float | None = None,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> Result:
    """Run to the end and capture both streams; a failed command is a Result, not an exception."""
    process = start(argv, stdin=PIPE if stdin else DEVNULL, stdout=PIPE, stderr=PIPE, cwd=cwd, env=env)
    try:
        out, err = process.communicate(stdin or None, timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise TimedOut(f"{argv[0]} did not answer within {timeout:g}s") from None
    return Result(code=_exit_code(process.returncode), out=out, err=err)


def start(
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
    try:
        return subprocess.Popen(
            argv, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env, start_new_session=new_session
        )
    except FileNotFoundError:
        if cwd is not None and not os.path.isdir(cwd):
            raise MngrError(f"there is no directory {cwd}") from None
        raise ProgramMissing(argv[0]) from None
    except PermissionError:
        raise MngrError(f"{argv[0]} may not be executed") from None


def wait(process: subprocess.Popen[bytes]) -> int:
    """The exit code, 128+N on signal N."""
    return _exit_code(process.wait())


def replace(argv: Sequence[str], env: Mapping[str, str] | None = None) -> NoReturn:
    """Become this program."""
    try:
        os.execvpe(argv[0], list(argv), dict(env) if env is not None else os.environ)
    except FileNotFoundError:
        raise ProgramMissing(argv[0]) from None


def _exit_code(code: int) -> int:
    return code if code >= 0 else 128 - code
