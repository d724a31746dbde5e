"""Connects to the process (`engine_server.py`) that has an engine's Python library loaded, and starts it on demand."""

from __future__ import annotations

import _socket  # importing `socket` would cost 10 ms
import json
import os
import sys

from mngr.base import shell
from mngr.base.errors import (
    EngineBusy,
    HostGone,
    HostStopped,
    MngrError,
    NotFound,
    ServiceUnavailable,
    Unreachable,
    UsageError,
)
from mngr.base.lock import Lock
from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, parse_json
from mngr.host import scripts
from mngr.providers.bridge.messages import EXEC_VERB, read_reply
from mngr.providers.shared import socket_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mngr.base.paths import Home

IDLE_SECONDS = 120.0  # an unused process ends after this time
MAX_CALL_SECONDS = 900.0  # the time limit of a call
_LOST_CODE = 255
# Precedes the reason why a command could not be started. It is secret, so that no host can forge it.
_ERROR_MARKER = f"mngr-bridge-{os.urandom(8).hex()}"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # the folder of mngr itself
_CLIENT = os.path.join(os.path.dirname(__file__), "run_command.py")
# Only mngr is importable from mngr's own directory. Its other packages may be for another Python.
_BOOT_PROGRAM = """
import sys, types
del sys.path[0]
mngr = sys.modules["mngr"] = types.ModuleType("mngr")
mngr.__path__ = [sys.argv[1]]
from mngr.providers.bridge.engine_server import main
main(*sys.argv[2:])
"""


class EngineModule(Struct):
    """The module that the server process loads, and what mngr must know of it."""

    name: str  # dotted name, or path of a file
    variables: tuple[str, ...] = ()  # environment variables that it reads, or prefixes of their names
    hints: dict[str, str] = {}  # the hint for each kind of error


class Bridge:
    """The server process for one provider of one home. It starts on demand and ends when unused."""

    def __init__(
        self,
        provider: str,
        home: Home,
        engine: EngineModule,
        options: dict[str, object],
        *,
        python: object = None,
        linger: float = IDLE_SECONDS,
    ) -> None:
        """Other options, or other values of the engine's environment variables, need another process."""
        if python is not None and not isinstance(python, str):  # a number, as 3.12 without quotes is in TOML
            hint = f"set the path of a program: mngr config set providers.{provider}.python PATH"
            raise UsageError(f"[providers.{provider}] python cannot be {python!r}", hint)
        self.provider = provider
        self._engine = engine
        self._words = {"options": options, "linger": linger}
        self._python = os.path.expanduser(python) if python else sys.executable
        relevant_env = sorted(item for item in os.environ.items() if item[0].startswith(engine.variables))
        engine_file = engine.name
        if not engine_file.endswith(".py"):
            engine_file = os.path.join(os.path.dirname(_PACKAGE), engine.name.replace(".", os.sep) + ".py")
        identity = [os.path.realpath(home.root), provider, self._python, engine.name, self._words, relevant_env]
        self.path = socket_paths.get_socket_path(
            "b", json.dumps([*identity, _get_mtime(engine_file), _get_mtime(_CLIENT)])
        )

    def call(
        self,
        verb: str,
        *,
        note: Callable[[str], None] | None = None,
        keep: Callable[[dict[str, object]], None] | None = None,
        host: str = "",
        timeout: float = MAX_CALL_SECONDS,
        **words: object,
    ) -> dict[str, object]:
        """Call a verb of the engine and return its answer.

        `keep` saves the answer. If mngr ends before that, the server undoes what the verb created.
        """
        link = self.connect(timeout)
        try:
            link.sendall(json.dumps({"do": verb, **words}).encode() + b"\n")
            for line in _iter_lines(link):
                reply = read_reply(as_object(parse_json(line)))
                if reply.note is not None and note is not None:
                    note(reply.note)
                elif reply.error_kind is not None:
                    raise self.build_error(reply.error_kind, reply.error_message, host)
                elif reply.answer is not None:
                    if keep is not None:
                        keep(reply.answer)
                        link.sendall(b'{"saved": true}\n')
                    return reply.answer
        except TimeoutError:
            why = f"{self.provider} did not answer within {timeout:g}s"
            raise Unreachable(why, "check the hosts: mngr list --hosts") from None
        except OSError:
            pass
        finally:
            link.close()
        raise Unreachable(
            f"the connection to {self.provider} ended",
            "mngr does not know whether the command ran; check the hosts: mngr list --hosts",
        )

    def connect(self, timeout: float | None) -> _socket.socket:
        """Return a connection to the process. Start the process if it does not run."""
        link = self._try_connect(timeout)
        if link is None:
            self._start()
            link = self._try_connect(timeout)
        if link is None:
            raise Unreachable(
                f"the helper process for {self.provider} ended immediately: {self._read_log_tail()}",
                f"check the provider: mngr doctor {self.provider}",
            )
        return link

    def build_error(self, kind: str, message: str, host: str = "") -> MngrError:
        """Return the mngr error for an engine's error of this kind."""
        hint = self._engine.hints.get(kind)
        if kind == "stopped":
            return HostStopped(self.provider, host, message or None)
        if kind == "gone":
            return HostGone(self.provider, host, message)
        error_classes = {
            "busy": EngineBusy,
            "unreachable": Unreachable,
            "usage": UsageError,
            "not_found": NotFound,
            "missing": ServiceUnavailable,
            "auth": ServiceUnavailable,
        }
        if kind == "missing":
            message = f"{self._python} cannot load {self.provider}: {message}"
        return error_classes.get(kind, MngrError)(message, hint)

    def _try_connect(self, timeout: float | None) -> _socket.socket | None:
        """Return a connection, or None when no process listens."""
        if not socket_paths.has_socket(self.path):
            return None
        link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        link.settimeout(timeout)
        try:
            link.connect(self.path)
        except OSError:
            link.close()
            return None
        return link

    def _start(self) -> None:
        """Start the process, unless another command has just started it."""
        socket_paths.make_socket_dir(self.path)
        with Lock(self.path + ".lock"):
            link = self._try_connect(None)
            if link is not None:
                link.close()
                return
            argv = [self._python, "-c", _BOOT_PROGRAM, _PACKAGE, self.path, self._engine.name]
            log = os.open(self.path + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                process = shell.start_process(
                    argv, stdin=shell.PIPE, stdout=shell.PIPE, stderr=log, cwd="/", new_session=True
                )
            finally:
                os.close(log)
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(self._words).encode())
                process.stdin.close()
            except BrokenPipeError:
                pass
            ready = process.stdout.read(1)
            process.stdout.close()
            process.returncode = 0  # The process outlives mngr, so nobody waits for it.
            if not ready:
                raise MngrError(
                    f"{self._python} cannot run the helper process for {self.provider}: {self._read_log_tail()}",
                    f"choose another Python: mngr config set providers.{self.provider}.python PATH",
                )

    def _read_log_tail(self) -> str:
        """Return the last line of the process's log."""
        try:
            with open(self.path + ".log", encoding="utf-8", errors="replace") as file:
                lines = file.read().strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it gave no reason"


class BridgeTransport:
    """The transport to one machine. A command runs by the engine's `exec`; `words` identify the machine."""

    def __init__(self, bridge: Bridge, host: str, words: dict[str, object]) -> None:
        self._bridge = bridge
        self._host = host
        self._words = words

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        self._bridge.connect(None).close()
        request: dict[str, object] = {"do": EXEC_VERB, "host": self._words, "mark": _ERROR_MARKER}
        if terminal:  # run_command.py inserts the size before it
            request["terminal"] = [os.environ.get("TERM", "xterm")]
        text = program if only is None else f"exec env -i {shell.join(only)} sh -c {shell.quote(program)}"
        words = [sys.executable, "-I", "-S", _CLIENT, self._bridge.path]
        return [*words, json.dumps(request), scripts.escape_non_ascii(text)]

    def start_command(
        self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None
    ) -> BridgeSession | None:
        """Start the command of `build_argv` without a local process.

        With a time limit the caller needs the output only at the end, so the engine may use its cheaper `run_buffered`.
        """
        request, program = argv[-2].encode(), argv[-1].encode()
        if timeout is not None:
            request = request[:-1] + b', "whole": true}'
        message = request + b"\n%d\n" % len(program) + program
        rights = b"".join(fd.to_bytes(4, "little" if sys.byteorder == "little" else "big") for fd in streams)
        for _ in range(2):  # The first process may have been about to end.
            link = self._bridge.connect(timeout)
            try:
                sent = link.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
                if sent < len(message):
                    link.sendall(message[sent:])
                if link.recv(1):
                    return BridgeSession(link)
            except TimeoutError:
                link.close()
                raise
            except OSError:
                pass
            link.close()
        return None

    def make_lost_error(self, stderr: str) -> Unreachable:
        _, marker, failure = stderr.rpartition(f"{_ERROR_MARKER} ")
        if marker:
            kind, _, why = failure.partition(": ")
            error = self._bridge.build_error(kind, why, self._host)
            return error if isinstance(error, Unreachable) else Unreachable(error.message, error.hint)
        why = stderr.splitlines()[-1] if stderr else "the connection ended"
        return Unreachable(
            f"{self._host}: {why}", "mngr does not know whether the command ran; see the agents: mngr list"
        )

    def close(self) -> None:
        pass  # The process stays for the next command.


class BridgeSession:
    """A command that runs on the machine."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link

    def wait(self) -> int:
        """Return the exit code, or 255 when the connection ended first."""
        self._link.settimeout(None)
        try:
            replies = [read_reply(as_object(parse_json(line))) for line in _iter_lines(self._link, b"{")]
            code = replies[-1].code
            return _LOST_CODE if code is None else code
        except (OSError, ValueError, IndexError):
            return _LOST_CODE
        finally:
            self._link.close()

    def kill(self) -> None:
        """Close the connection, which ends the command."""
        self._link.close()


def _iter_lines(link: _socket.socket, buffer: bytes = b"") -> Iterator[bytes]:
    """Yield lines until the connection closes."""
    while data := link.recv(65536):
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        yield from lines


def _get_mtime(path: str) -> int:
    """Return the modification time of a file. A process with older code has another socket."""
    return os.stat(path).st_mtime_ns


class StoppedTransport:
    """The transport to a machine that is stopped. Every use raises HostStopped."""

    def __init__(self, provider: str, host: str) -> None:
        self._place = (provider, host)

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        raise HostStopped(*self._place)

    def make_lost_error(self, stderr: str) -> Unreachable:
        return HostStopped(*self._place)

    def close(self) -> None:
        pass
