"""Engines that are Python libraries, reached through the process that has one loaded (`server.py`)."""

from __future__ import annotations

import _socket  # what `socket` is made of: that would cost 10 ms
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
from mngr.host import scripts
from mngr.providers.shared import sockets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mngr.base.paths import Home

IDLE_SECONDS = 120.0  # seconds that the process stays when nobody needs it
MAX_CALL_SECONDS = 900.0  # seconds that a call may take
_LOST_CODE = 255
_ERROR_MARKER = f"mngr-bridge-{os.urandom(8).hex()}"  # begins why a command could not be run; no host gets to know it
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))  # the folder of mngr itself
_CLIENT = os.path.join(os.path.dirname(__file__), "client.py")
# Of the place where mngr is, nothing else can be imported: it may be for another Python.
_BOOT_PROGRAM = """
import sys, types
del sys.path[0]
mngr = sys.modules["mngr"] = types.ModuleType("mngr")
mngr.__path__ = [sys.argv[1]]
from mngr.providers.bridge.server import main
main(*sys.argv[2:])
"""


class Bridge:
    """The process for one provider of one home: there when it is needed, and gone some time later."""

    def __init__(
        self,
        provider: str,
        home: Home,
        engine: str,
        options: dict[str, Any],
        *,
        python: str | None = None,
        linger: float = IDLE_SECONDS,
        variables: Sequence[str] = (),
        hints: dict[str, str] | None = None,
    ) -> None:
        """`engine` is a module's dotted name or a path; with other `variables` (or what they begin with) it is another."""
        if python is not None and not isinstance(python, str):  # as 3.12 is in a file of settings
            hint = "the path of a program, in quotes"
            raise UsageError(f"[providers.{provider}] python cannot be {python!r}", hint)
        self.provider = provider
        self._engine = engine
        self._words = {"options": options, "linger": linger}
        self._python = os.path.expanduser(python) if python else sys.executable
        self._hints = hints or {}
        known = sorted(item for item in os.environ.items() if item[0].startswith(tuple(variables)))
        code = engine
        if not engine.endswith(".py"):
            code = os.path.join(os.path.dirname(_PACKAGE), engine.replace(".", os.sep) + ".py")
        whole = [os.path.realpath(home.root), provider, self._python, engine, self._words, known]
        self.path = sockets.get_socket_path("b", json.dumps([*whole, _get_mtime(code), _get_mtime(_CLIENT)]))

    def call(
        self,
        verb: str,
        *,
        note: Callable[[str], None] | None = None,
        keep: Callable[[dict[str, Any]], None] | None = None,
        host: str = "",
        timeout: float = MAX_CALL_SECONDS,
        **words: Any,
    ) -> dict[str, Any]:
        """What the engine answers. `keep` writes it down: what was made is undone if we do not come to that."""
        link = self.connect(timeout)
        try:
            link.sendall(json.dumps({"do": verb, **words}).encode() + b"\n")
            for line in _iter_lines(link):
                said: dict[str, Any] = json.loads(line)
                if "note" in said and note is not None:
                    note(said["note"])
                elif "error" in said:
                    raise self.build_error(said["error"]["kind"], said["error"]["message"], host)
                elif "answer" in said:
                    answer: dict[str, Any] = said["answer"]
                    if keep is not None:
                        keep(answer)
                        link.sendall(b'{"kept": true}\n')
                    return answer
        except TimeoutError:
            why = f"{self.provider} did not answer within {timeout:g}s"
            raise Unreachable(why, "see: mngr list --hosts") from None
        except OSError:
            pass
        finally:
            link.close()
        raise Unreachable(f"the connection to {self.provider} ended", "it may or may not have been done")

    def connect(self, timeout: float | None) -> _socket.socket:
        """A connection to the process, which is started if it is not there."""
        link = self._try_connect(timeout)
        if link is None:
            self._start()
            link = self._try_connect(timeout)
        if link is None:
            raise Unreachable(f"the process for {self.provider} ended at once: {self._read_log_tail()}")
        return link

    def build_error(self, kind: str, message: str, host: str = "") -> MngrError:
        """What a refusal of that kind is here."""
        hint = self._hints.get(kind)
        if kind == "stopped":
            return HostStopped(self.provider, host, message or None)
        if kind == "gone":
            return HostGone(self.provider, host, message)
        kinds = {
            "busy": EngineBusy, "unreachable": Unreachable, "usage": UsageError, "not_found": NotFound, "missing": ServiceUnavailable, "auth": ServiceUnavailable,
        }  # fmt: skip
        if kind == "missing":
            message = f"{self._python} cannot load {self.provider}: {message}"
        return kinds.get(kind, MngrError)(message, hint)

    def _try_connect(self, timeout: float | None) -> _socket.socket | None:
        """A connection; None when nobody listens."""
        if not sockets.has_socket(self.path):
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
        """Start the process, unless somebody else just has."""
        sockets.make_socket_dir(self.path)
        with Lock(self.path + ".lock"):
            link = self._try_connect(None)
            if link is not None:
                link.close()
                return
            argv = [self._python, "-c", _BOOT_PROGRAM, _PACKAGE, self.path, self._engine]
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
            process.returncode = 0  # it outlives us: nobody is to wait for it
            if not ready:
                raise MngrError(
                    f"{self._python} cannot serve {self.provider}: {self._read_log_tail()}",
                    f"choose another Python: [providers.{self.provider}] python",
                )

    def _read_log_tail(self) -> str:
        try:
            with open(self.path + ".log", encoding="utf-8", errors="replace") as file:
                lines = file.read().strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it does not say why"


class BridgeWire:
    """One machine: a command is an `exec` of the engine's, by the words that the engine knows the machine by."""

    def __init__(self, bridge: Bridge, host: str, words: dict[str, Any]) -> None:
        self._bridge = bridge
        self._host = host
        self._words = words

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        self._bridge.connect(None).close()
        request: dict[str, Any] = {"do": "exec", "host": self._words, "mark": _ERROR_MARKER}
        if terminal:  # the size goes before it
            request["terminal"] = [os.environ.get("TERM", "xterm")]
        text = program if only is None else f"exec env -i {shell.join(only)} sh -c {shell.quote(program)}"
        words = [sys.executable, "-I", "-S", _CLIENT, self._bridge.path]
        return [*words, json.dumps(request), scripts.escape_non_ascii(text)]

    def begin(self, argv: Sequence[str], streams: tuple[int, int, int], timeout: float | None) -> BridgeSession | None:
        """What `argv` gave, from here; with a limit all that it says is wanted at its end, and not before."""
        request, program = argv[-2].encode(), argv[-1].encode()
        if timeout is not None:
            request = request[:-1] + b', "whole": true}'
        message = request + b"\n%d\n" % len(program) + program
        rights = b"".join(fd.to_bytes(4, "little" if sys.byteorder == "little" else "big") for fd in streams)
        for _ in range(2):  # the first may have been about to end
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

    def make_lost_error(self, said: str) -> Unreachable:
        _, found, refusal = said.rpartition(f"{_ERROR_MARKER} ")
        if found:
            kind, _, why = refusal.partition(": ")
            error = self._bridge.build_error(kind, why, self._host)
            return error if isinstance(error, Unreachable) else Unreachable(error.message, error.hint)
        why = said.splitlines()[-1] if said else "the connection ended"
        return Unreachable(f"{self._host}: {why}", "it may or may not have been done; see: mngr list")

    def close(self) -> None:
        pass  # the next command is glad of the process


class BridgeSession:
    """A command that runs there."""

    def __init__(self, link: _socket.socket) -> None:
        self._link = link

    def wait(self) -> int:
        """Its exit code; 255 when the connection ended first."""
        self._link.settimeout(None)
        try:
            said = [json.loads(line) for line in _iter_lines(self._link, b"{")]
            return int(said[-1].get("code", _LOST_CODE))
        except (OSError, ValueError, IndexError):
            return _LOST_CODE
        finally:
            self._link.close()

    def kill(self) -> None:
        """Cut it off."""
        self._link.close()


def _iter_lines(link: _socket.socket, held: bytes = b"") -> Iterator[bytes]:
    """What comes, line by line, until it closes."""
    while data := link.recv(65536):
        held += data
        *lines, held = held.split(b"\n")
        yield from lines


def _get_mtime(path: str) -> int:
    """When a file was last written: a process with another program in it is not ours."""
    return os.stat(path).st_mtime_ns


class StoppedWire:
    """In place of the way to a machine that is not there."""

    def __init__(self, provider: str, host: str) -> None:
        self._place = (provider, host)

    def build_argv(self, program: str, *, terminal: bool = False, only: Sequence[str] | None = None) -> list[str]:
        raise HostStopped(*self._place)

    def make_lost_error(self, said: str) -> Unreachable:
        return HostStopped(*self._place)

    def close(self) -> None:
        pass
