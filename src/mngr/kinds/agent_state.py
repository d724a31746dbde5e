"""From evidence to a state: witnesses in the order of what can be trusted most; the first that knows decides."""

from __future__ import annotations

from mngr.base import clock
from mngr.base.model import AgentRecord, Evidence, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SAYABLE = ("STARTING", "RUNNING", "WAITING", "PARKED")  # what a program may say of itself
_LONGEST = 100  # of a reason an agent gives
_FAR = 1e11  # seconds: past the year 5000, so no time of ours


def state_of(record: AgentRecord, evidence: Evidence) -> State:
    """The state of any agent whose program says nothing of its own, or says it through `status`."""
    for _, hear in WITNESSES:
        state = hear(record, evidence)
        if state is not None:
            return state
    return State(state="UNKNOWN", reason="no evidence", source="record")


def _record(record: AgentRecord, evidence: Evidence) -> State | None:
    if record.phase == "creating":
        if evidence.owner_alive:
            return State(state="STARTING", source="record", since=record.created_at)
        return State(state="FAILED", reason="create_interrupted", source="record", since=record.created_at)
    if record.phase == "destroying":
        reason = "destroying" if evidence.owner_alive else "destroy_interrupted"
        return State(state="STOPPED", reason=reason, source="record")
    return None


def _stopped(record: AgentRecord, evidence: Evidence) -> State | None:
    if evidence.stopped is None:
        return None
    return State(
        state="STOPPED",
        reason=_text(evidence.stopped.get("reason")),
        source="record",
        since=when(evidence.stopped),
    )


def _exit(record: AgentRecord, evidence: Evidence) -> State | None:
    if evidence.exit is None:
        return None
    code = evidence.exit.get("code")
    if code == 0:
        return State(state="DONE", source="exit", since=when(evidence.exit))
    return State(state="FAILED", reason=f"exit {code}", source="exit", since=when(evidence.exit))


def _status(record: AgentRecord, evidence: Evidence) -> State | None:
    status = evidence.status
    if status is None or status.get("state") not in _SAYABLE or not is_running(evidence):
        return None
    return State(
        state=str(status["state"]),
        reason=_text(status.get("reason")),
        source=_text(status.get("source")) or "hook",
        since=when(status),
        parked_until=_stamp(status.get("until")),
    )


def _process(record: AgentRecord, evidence: Evidence) -> State | None:
    if not evidence.tmux_answers:
        return State(state="UNKNOWN", reason="tmux does not answer", source="process")
    if is_running(evidence):
        made = float(str((evidence.pane or {}).get("created") or 0))  # its terminal, at its last start
        return State(state="RUNNING", source="process", since=max(clock.stamp(made), record.created_at))
    return State(state="FAILED", reason="lost", source="process")


WITNESSES: tuple[tuple[str, Callable[[AgentRecord, Evidence], State | None]], ...] = (
    ("record", _record),
    ("stop marker", _stopped),
    ("exit record", _exit),
    ("status", _status),
    ("process", _process),
)


def is_running(evidence: Evidence) -> bool:
    """Whether the agent's terminal is there and its program has not ended."""
    return evidence.tmux_answers and evidence.pane is not None and evidence.pane.get("dead") != "1"


def when(row: dict[str, object]) -> str | None:
    """The time a row names, written as a stamp or as seconds."""
    at = row.get("at")
    if isinstance(at, int | float):
        return clock.stamp(float(at)) if 0 < at < _FAR else None
    return _stamp(at)


def _stamp(value: object) -> str | None:
    """A stamp of ours, or nothing: agents can write anything here."""
    if not isinstance(value, str) or len(value) != 24:
        return None
    shape = "".join("0" if c.isdigit() and c.isascii() else c for c in value)
    return value if shape == "0000-00-00T00:00:00.000Z" else None


def _text(value: object) -> str | None:
    return " ".join(value.split())[:_LONGEST] or None if isinstance(value, str) else None
