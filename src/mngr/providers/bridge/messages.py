"""The messages between a client of the bridge and its server, each a line of JSON."""

from __future__ import annotations

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_list, find_number, find_text, get_object, get_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

EXEC_VERB = "exec"


class TerminalSpec(Struct):
    """The terminal that a command gets."""

    rows: int
    columns: int
    term: str  # the value of TERM


class ExecRequest(Struct):
    """A request to run a program. The program and three file descriptors follow it."""

    host: dict[str, object]  # identifies the machine for the engine
    mark: str  # precedes the reason why the program could not run
    terminal: TerminalSpec | None = None
    is_buffered: bool = False  # the client needs the output only at the end


class CallRequest(Struct):
    """A request to call a verb of the engine."""

    verb: str
    words: dict[str, object]  # the arguments of the verb


class Reply(Struct):
    """A line of the server: a note, an error, an answer or an exit code."""

    note: str | None = None
    error_kind: str | None = None  # one of ERROR_KINDS
    error_message: str = ""
    answer: dict[str, object] | None = None
    code: int | None = None  # the exit code of a program


def read_request(row: Mapping[str, object]) -> ExecRequest | CallRequest:
    """Return the request of a client."""
    verb = get_text(row, "do")
    if verb != EXEC_VERB:
        return CallRequest(verb=verb, words={key: value for key, value in row.items() if key != "do"})
    return ExecRequest(
        host=get_object(row, "host"),
        mark=get_text(row, "mark"),
        terminal=_read_terminal(row.get("terminal")),
        is_buffered=row.get("whole") is True,
    )


def _read_terminal(value: object) -> TerminalSpec | None:
    """Return the terminal in a request, or None. run_command.py writes its size."""
    if not isinstance(value, list):
        return None
    rows, columns, term = as_list(value)
    return TerminalSpec(rows=int(str(rows)), columns=int(str(columns)), term=str(term))


def read_reply(row: Mapping[str, object]) -> Reply:
    """Return a line of the server."""
    error, answer, code = get_object(row, "error"), row.get("answer"), find_number(row, "code")
    return Reply(
        note=find_text(row, "note"),
        error_kind=find_text(error, "kind"),
        error_message=get_text(error, "message"),
        answer=answer if isinstance(answer, dict) else None,
        code=int(code) if code is not None else None,
    )
