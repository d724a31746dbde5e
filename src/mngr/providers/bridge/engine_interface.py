"""The protocol that an engine's module implements, and the errors that it sends to the client."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from mngr.providers.bridge.messages import TerminalSpec

FIRST_BYTE_TIMEOUT = 10.0  # seconds; the first byte of an answer must come within this time
# The start of an HTTP/2 connection: the preface and an empty settings frame.
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
# busy: no capacity now; gone: the machine does not exist any more; stopped: it can be started again;
# unreachable: the engine does not answer; auth: it rejects the credentials; missing: the library is not installed;
# ended: the machine has ended and takes no more commands.
ERROR_KINDS = (
    "busy",
    "gone",
    "stopped",
    "unreachable",
    "auth",
    "not_found",
    "usage",
    "missing",
    "ended",
    "other",
)


class EngineError(Exception):
    """An error of an engine, with one of ERROR_KINDS."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class UndoableResult:
    """The answer of a verb that created something which cannot be found again.

    The server calls `undo` unless the client confirms that it has saved the answer.
    """

    def __init__(self, answer: dict[str, object], undo: Callable[[], Awaitable[object]]) -> None:
        self.answer = answer
        self.undo = undo


class EngineCommand(Protocol):
    """A command that runs on a machine. Every method may raise EngineError if the machine or engine is lost."""

    async def write(self, data: bytes) -> None:
        """Pass input to the command and return when it can take more. Input that nobody reads is dropped."""
        ...

    async def end_input(self) -> None:
        """Close the command's input."""
        ...

    def read(self, stream: int) -> AsyncIterator[bytes]:
        """Yield the data of standard output (1) or error (2) as it comes, no faster than the caller takes it."""
        ...

    async def wait(self) -> int:
        """Wait for the end and return the exit code, or 128+N if signal N ended the command."""
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Set the size of the command's terminal."""
        ...

    async def kill(self) -> None:
        """End the command and its children, but not its background processes. Its client is gone."""
        ...


class BridgeEngine(Protocol):
    """The engine of a server.

    A verb of `verbs` is called as `verb(note, **words)` with the words of the client's request. If the client goes
    away, the verb is cancelled and must clean up.
    """

    verbs: Mapping[str, Verb]

    async def exec(self, host: dict[str, object], program: str, terminal: TerminalSpec | None) -> EngineCommand:
        """Start an sh program on a machine. `host` identifies the machine."""
        ...

    async def close(self) -> None:
        """Release everything, because the server ends."""
        ...


@runtime_checkable
class BufferedEngine(Protocol):
    """An optional capability of an engine: run a program to its end at a lower cost than with `exec`."""

    async def run_buffered(self, host: dict[str, object], program: str, data: bytes) -> tuple[bytes, bytes, int]:
        """Run an sh program with `data` as its input, and return its output, its errors and its exit code.

        When it is cancelled, it ends the program. Code 255 means that the program was interrupted.
        """
        ...


if TYPE_CHECKING:
    Note = Callable[[str], None]  # reports progress to the caller
    Verb = Callable[..., Awaitable[dict[str, object] | UndoableResult]]
