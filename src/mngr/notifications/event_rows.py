"""Reads the new events of agents on one host, and finds the changes of state in them.

An agent can write anything into its events, so the reads are limited and every value is checked.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping

from mngr.base.model import Struct
from mngr.base.untrusted_json import as_object, find_int, get_object, get_text, parse_json
from mngr.host import scripts
from mngr.host.protocol import Host
from mngr.kinds.coding_agent import find_park_reason

READ_BYTES = 256 * 1024  # of one agent in one read
_BACKLOG_BYTES = 4 * 1024 * 1024  # of the events that nobody has read; older ones are skipped
_TIMEOUT = 20.0
_HEADER = re.compile(rb" ([0-9a-z-]{1,80}) (\d{1,15}) (\d{1,15})")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", re.ASCII)
_MAX_REASON_LENGTH = 100
# These events only show that an agent works. `message` comes first when a person has answered.
_WORK_TYPES = ("message", "turn_start", "tool_start", "tool_end")
READY, RUNNING = "READY", "RUNNING"  # READY: the program accepts messages and has had none


class NewRows(Struct):
    """The bytes that were added to an agent's events. `size` is the present size of the file."""

    offset: int
    size: int
    data: bytes


class StateChange(Struct):
    """A state that begins with an event. `offset` is the place of the event's row, `end` the place after it."""

    id: str
    at: str  # a timestamp, or empty if the event has none
    state: str
    reason: str | None
    offset: int
    end: int
    is_certain: bool  # False when only the agent's present state shows what the event means


def read_new_rows(host: Host, offsets: Mapping[str, int]) -> dict[str, NewRows]:
    """Return what was added to the events of agents after these offsets, by agent id. Raise Unreachable."""
    mark = os.urandom(16).hex()
    words = [word for agent_id, offset in offsets.items() for word in (agent_id, str(offset))]
    program = scripts.read_program_beside(__file__, "read_new_rows.sh")
    argv = ["sh", "-c", program, "read", host.home.agents, mark, str(READ_BYTES), str(_BACKLOG_BYTES), *words]
    out = host.run(argv, timeout=_TIMEOUT).out
    found: dict[str, NewRows] = {}
    for part in out.split(mark.encode())[1:]:  # No agent knows the mark.
        header, _, data = part.partition(b"\n")
        match = _HEADER.fullmatch(header)
        if match and match[1].decode() in offsets:
            found[match[1].decode()] = NewRows(offset=int(match[2]), size=int(match[3]), data=data[:-1])
    return found


def find_changes(agent_id: str, rows: NewRows, last_state: str | None) -> tuple[list[StateChange], int]:
    """Return the changes of state in the complete rows, and the offset after the last complete row."""
    changes: list[StateChange] = []
    complete, newline, _ = rows.data.rpartition(b"\n")
    if not newline:  # A row that is longer than a read is skipped.
        return [], rows.offset + (len(rows.data) if len(rows.data) >= READ_BYTES else 0)
    end = rows.offset
    for line in complete.split(b"\n"):
        offset, end = end, end + len(line) + 1
        try:
            row = as_object(parse_json(line))
        except ValueError:
            continue
        found = _find_state(row, last_state)
        if found is None:
            continue
        state, reason, is_certain = found
        if changes and _is_taken_back(changes[-1], state, get_text(row, "type")):
            changes.pop()
        changes.append(
            StateChange(
                id=compute_id(agent_id, offset, line),
                at=find_time(get_text(row, "at")),
                state=state,
                reason=reason,
                offset=offset,
                end=end,
                is_certain=is_certain,
            )
        )
        last_state = state
    return changes, end


def find_time(text: str) -> str:
    """Return the text if it is a timestamp, else an empty text: an agent can write anything there."""
    return text if _TIMESTAMP.fullmatch(text) else ""


def _is_taken_back(change: StateChange, next_state: str, next_type: str) -> bool:
    """True when the next event shows that an uncertain change was none.

    A program that ends because it was stopped has not failed. A turn that goes on without a message has not ended.
    """
    if change.state in ("FAILED", "DONE"):
        return next_state == "STOPPED"
    return not change.is_certain and next_state == RUNNING and next_type != "message"


def compute_id(agent_id: str, offset: int, content: bytes) -> str:
    """Return an id that a second reading of the same change computes again."""
    return hashlib.sha256(f"{agent_id} {offset} ".encode() + content).hexdigest()[:20]


def _find_state(row: Mapping[str, object], last_state: str | None) -> tuple[str, str | None, bool] | None:
    """Return the state that begins with an event, its reason and whether it is certain, or None."""
    event_type, data = get_text(row, "type"), get_object(row, "data")
    reason = get_text(data, "reason")[:_MAX_REASON_LENGTH] or None
    match event_type:
        case "ready" | "started" | "created":
            return READY, None, True
        case "waiting":
            is_first = reason == "end_of_turn" and last_state in (None, READY)
            return (READY, None, True) if is_first else ("WAITING", reason, True)
        case "parked":
            return "PARKED", reason, True
        case "permission" | "question":
            return "WAITING", event_type, True
        case "turn_end":
            # The scripted agent reports its next state with another event.
            return None if get_text(row, "source") == "player" else ("WAITING", "end_of_turn", False)
        case "turn_failed":
            park_reason = find_park_reason(get_text(data, "error"))
            return ("PARKED", park_reason, False) if park_reason else ("WAITING", "end_of_turn", False)
        case "stopped":
            return "STOPPED", reason, True
        case "exited":
            code = find_int(data, "code")
            return ("DONE", None, False) if code == 0 else ("FAILED", f"exit {code}", False)
    return (RUNNING, None, True) if event_type in _WORK_TYPES else None


def select_recent(changes: Iterable[StateChange], oldest: str) -> list[StateChange]:
    """Return the changes that did not happen before a time. A change without a time counts as recent."""
    return [change for change in changes if not change.at or change.at >= oldest]
