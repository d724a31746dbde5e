"""From evidence to a state, in the order of what can be trusted most."""

from __future__ import annotations

from mngr import clock
from mngr.model import AgentRecord, Evidence, State


def state_of(record: AgentRecord, evidence: Evidence) -> State:
    """The state of any agent whose program says nothing of its own, or says it through `status`."""
    if record.phase == "creating":
        if evidence.owner_alive:
            return State(state="STARTING", source="record", since=record.created_at)
        return State(state="FAILED", reason="create_interrupted", source="record", since=record.created_at)
    if record.phase == "destroying":
        reason = "destroying" if evidence.owner_alive else "destroy_interrupted"
        return State(state="STOPPED", reason=reason, source="record")
    if evidence.stopped is not None:
        reason = evidence.stopped.get("reason") or None
        return State(state="STOPPED", reason=reason, source="record", since=_at(evidence.stopped))
    if evidence.exit is not None:
        code = evidence.exit.get("code")
        if code == 0:
            return State(state="DONE", source="exit", since=_at(evidence.exit))
        return State(state="FAILED", reason=f"exit {code}", source="exit", since=_at(evidence.exit))
    if evidence.pane is None or evidence.pane.get("dead") == "1":
        return State(state="FAILED", reason="lost", source="process")
    status = evidence.status
    if status is not None and status.get("state") in ("STARTING", "RUNNING", "WAITING", "PARKED"):
        return State(
            state=str(status["state"]),
            reason=_text(status.get("reason")),
            source=_text(status.get("source")) or "hook",
            since=_text(status.get("at")),
            parked_until=_text(status.get("until")),
        )
    return State(state="RUNNING", source="process", since=record.created_at)


def _at(row: dict[str, object]) -> str | None:
    at = row.get("at")
    return clock.stamp(float(at)) if isinstance(at, int | float) else _text(at)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
