"""Derives an agent's state from evidence: the most reliable rule runs first, and the first result counts."""

from __future__ import annotations

from mngr.base import time_format
from mngr.base.model import AgentRecord, AgentState, Evidence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_REPORTABLE_STATES = ("STARTING", "RUNNING", "WAITING", "PARKED")  # the states that a program may report itself
_MAX_REASON_LENGTH = 100  # characters of a reason that an agent reports
_MAX_TIMESTAMP = 1e11  # seconds: a later time is after the year 5000, so it is not a real time


def derive_state(record: AgentRecord, evidence: Evidence) -> AgentState:
    """Return the agent's state by the first rule that applies. This serves programs that report only by `status`."""
    for _, derive in EVIDENCE_RULES:
        state = derive(record, evidence)
        if state is not None:
            return state
    return AgentState(state="UNKNOWN", reason="no evidence", source="record")


def _state_from_record(record: AgentRecord, evidence: Evidence) -> AgentState | None:
    if record.phase == "creating":
        if evidence.is_owner_alive:
            return AgentState(state="STARTING", source="record", since=record.created_at)
        return AgentState(state="FAILED", reason="create_interrupted", source="record", since=record.created_at)
    if record.phase == "destroying":
        reason = "destroying" if evidence.is_owner_alive else "destroy_interrupted"
        return AgentState(state="STOPPED", reason=reason, source="record")
    return None


def _state_from_stop(record: AgentRecord, evidence: Evidence) -> AgentState | None:
    if evidence.stopped is None:
        return None
    return AgentState(
        state="STOPPED",
        reason=_text_or_none(evidence.stopped.get("reason")),
        source="record",
        since=parse_row_time(evidence.stopped),
    )


def _state_from_exit(record: AgentRecord, evidence: Evidence) -> AgentState | None:
    if evidence.exit is None:
        return None
    code = evidence.exit.get("code")
    if code == 0:
        return AgentState(state="DONE", source="exit", since=parse_row_time(evidence.exit))
    return AgentState(state="FAILED", reason=f"exit {code}", source="exit", since=parse_row_time(evidence.exit))


def _state_from_status(record: AgentRecord, evidence: Evidence) -> AgentState | None:
    status = evidence.hook_status
    if status is None or status.get("state") not in _REPORTABLE_STATES or not is_running(evidence):
        return None
    return AgentState(
        state=str(status["state"]),
        reason=_text_or_none(status.get("reason")),
        source=_text_or_none(status.get("source")) or "hook",
        since=parse_row_time(status),
        parked_until=_parse_timestamp(status.get("until")),
    )


def _state_from_process(record: AgentRecord, evidence: Evidence) -> AgentState | None:
    if not evidence.is_tmux_running:
        return AgentState(state="UNKNOWN", reason="tmux does not answer", source="process")
    if is_running(evidence):
        created = float(str((evidence.pane or {}).get("created") or 0))  # each start creates a new terminal
        return AgentState(
            state="RUNNING", source="process", since=max(time_format.format_timestamp(created), record.created_at)
        )
    return AgentState(state="FAILED", reason="lost", source="process")


EVIDENCE_RULES: tuple[tuple[str, Callable[[AgentRecord, Evidence], AgentState | None]], ...] = (
    ("record", _state_from_record),
    ("stop marker", _state_from_stop),
    ("exit record", _state_from_exit),
    ("status", _state_from_status),
    ("process", _state_from_process),
)


def is_running(evidence: Evidence) -> bool:
    """True when the agent's terminal exists and its program has not ended."""
    return evidence.is_tmux_running and evidence.pane is not None and evidence.pane.get("dead") != "1"


def parse_row_time(row: dict[str, object]) -> str | None:
    """Return the time in a row's `at`, given as a timestamp or in seconds, or None when it is not valid."""
    value = row.get("at")
    if isinstance(value, int | float):
        return time_format.format_timestamp(float(value)) if 0 < value < _MAX_TIMESTAMP else None
    return _parse_timestamp(value)


def _parse_timestamp(value: object) -> str | None:
    """Return the value if it is a timestamp in mngr's format, else None: agents can write anything here."""
    if not isinstance(value, str) or len(value) != 24:
        return None
    shape = "".join("0" if c.isdigit() and c.isascii() else c for c in value)
    return value if shape == "0000-00-00T00:00:00.000Z" else None


def _text_or_none(value: object) -> str | None:
    return " ".join(value.split())[:_MAX_REASON_LENGTH] or None if isinstance(value, str) else None
