"""What an engine's module brings, and the errors that travel from it to whoever asked."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Any, Protocol
else:
    Protocol = object

FIRST_BYTE_TIMEOUT = 10.0  # seconds that the first word of a connection may take
# Of HTTP/2: that it is spoken, and a frame with no settings of ours.
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
# busy: not now, for it is asked too much of; gone: the machine surely is no more; stopped: it can be started again;
# unreachable: the engine does not answer; auth: it does not know us; missing: the library is not there;
# ended: the machine cannot do it any more.
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
    """What an engine cannot do, and of which kind that is."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


class UndoableResult:
    """The answer of a verb that made what cannot be found again: undone unless the caller has noted the answer."""

    def __init__(self, answer: dict[str, Any], undo: Callable[[], Awaitable[object]]) -> None:
        self.answer = answer
        self.undo = undo


class EngineCommand(Protocol):
    """A command that runs on a machine. Every method may raise Refused when the machine or the engine is lost."""

    async def write(self, data: bytes) -> None:
        """Hand on input; returns when it may have more. Input that nobody reads any more is dropped."""
        ...

    async def end_input(self) -> None:
        """There is no more input."""
        ...

    def read(self, stream: int) -> AsyncIterator[bytes]:
        """What comes on standard output (1) or error (2), as it comes and no faster than it is taken."""
        ...

    async def wait(self) -> int:
        """Its exit code, 128+N on signal N, when it has ended."""
        ...

    async def resize(self, rows: int, columns: int) -> None:
        """Its terminal has another size now."""
        ...

    async def kill(self) -> None:
        """Whoever started it is gone; end it and what it started, but not what went into the background."""
        ...


class BridgeEngine(Protocol):
    """One in a server. Besides, an `async def do_VERB(note, **words)` for each verb that can be called; it gives a dict or Made.

    A verb whose caller goes away is cancelled: what it has made by then is taken back by itself.
    """

    def __init__(self, options: dict[str, Any]) -> None:
        """With the settings of the provider; touches nothing yet."""
        ...

    async def exec(self, host: dict[str, Any], program: str, terminal: list[Any] | None) -> EngineCommand:
        """Start a program of sh. `host` are the words by which the wire knows it; terminal: rows, columns, TERM."""
        ...

    # What an engine may also have is `async def whole(host, program, data) -> (out, err, code)`: the same at once, where that
    # costs less. Who is cancelled ends what he started; 255 is for what has ended before its program did.

    async def close(self) -> None:
        """The server ends."""
        ...


if TYPE_CHECKING:
    Note = Callable[[str], None]  # tells the caller how it goes
