"""Explains why an agent has its state, with each piece of evidence."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.list import ObservedAgent
from mngr.base import time_format
from mngr.base.errors import UPDATE_HINT, MngrError
from mngr.base.model import AgentRecord, AgentState, Evidence, Struct
from mngr.host import record_store
from mngr.kinds import agent_state
from mngr.kinds.coding_agent import CodingAgentKind
from mngr.kinds.protocol import AgentKind


class EvidenceRow(Struct):
    """One piece of evidence: its source, what it says, and whether it decided the state."""

    source: str
    text: str
    at: str | None = None
    age: float | None = None  # seconds
    is_decisive: bool = False


class Explanation(Struct):
    """A state, all evidence about it, and the next step that would change it."""

    id: str
    name: str
    kind: str
    state: str
    state_reason: str | None
    state_source: str
    state_since: str | None
    age: float | None  # seconds since the state began
    evidence: list[EvidenceRow]
    next_step: str


def explain(ctx: Context, name: str) -> Explanation:
    """Return the state of an agent and the evidence for it."""
    observed = find.observe_agent(ctx, name)
    record, state = observed.record, observed.state
    agent_name = record.name if record else observed.id
    return Explanation(
        id=observed.id,
        name=agent_name,
        kind=record.kind if record else "?",
        state=state.state,
        state_reason=state.reason,
        state_source=state.source,
        state_since=state.since,
        age=_compute_age(state.since, observed.evidence.now),
        evidence=_list_evidence(ctx, observed),
        next_step=_suggest_next_step(ctx, observed, agent_name),
    )


def _list_evidence(ctx: Context, observed: ObservedAgent) -> list[EvidenceRow]:
    """Return all evidence in order. The first rule that yields the state decided it."""
    record, evidence = observed.record, observed.evidence
    if record is None:
        problem = observed.record_problem
        text = str(problem) if isinstance(problem, record_store.NewerRecord) else f"damaged: {problem}"
        return [EvidenceRow(source="record", text=text, is_decisive=True)]
    try:
        kind = ctx.get_agent_kind(record)
    except MngrError as error:
        return [EvidenceRow(source="record", text=error.message, is_decisive=True)]
    rows: list[EvidenceRow] = []
    for rule_name, apply_rule in agent_state.EVIDENCE_RULES:
        description, timestamp = _DESCRIBERS[rule_name](record, evidence)
        is_decisive = apply_rule(record, evidence) == observed.state and not any(row.is_decisive for row in rows)
        rows.append(
            EvidenceRow(
                source=rule_name,
                text=description,
                at=timestamp,
                age=_compute_age(timestamp, evidence.now),
                is_decisive=is_decisive,
            )
        )
    rows += _list_program_evidence(observed, kind)
    if not any(row.is_decisive for row in rows):
        rows.append(
            EvidenceRow(
                source=f"kind {record.kind}",
                text=_format_state(observed.state),
                at=observed.state.since,
                is_decisive=True,
            )
        )
    return rows


def _list_program_evidence(observed: ObservedAgent, kind: AgentKind) -> list[EvidenceRow]:
    """Return what a coding agent's status file and its screen show, if mngr looked at them."""
    evidence, source = observed.evidence, observed.state.source
    rows: list[EvidenceRow] = []
    own_status = kind.read_own_status(evidence) if isinstance(kind, CodingAgentKind) else None
    if own_status is not None:
        description, timestamp = own_status
        is_decisive = source in ("program", "transcript")
        rows.append(
            EvidenceRow(
                source="program",
                text=description,
                at=timestamp,
                age=_compute_age(timestamp, evidence.now),
                is_decisive=is_decisive,
            )
        )
    if evidence.screen is None and source == "screen":
        title = (evidence.pane or {}).get("title", "")
        rows.append(EvidenceRow(source="title", text=f"the title of its terminal: {title}", is_decisive=True))
    if evidence.screen is not None:
        lines = [line.strip() for line in evidence.screen.splitlines() if line.strip()]
        description = (
            f"its screen shows {observed.state.reason}"
            if source == "screen"
            else f"none of its {len(lines)} lines matches a rule of this kind"
        )
        rows.append(EvidenceRow(source="screen", text=description, is_decisive=source == "screen"))
    return rows


def _describe_record(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if record.phase == "ready":
        return "the agent is completely created", record.created_at
    owner = f"process {(record.owner or {}).get('pid')}"
    return (
        f"{owner} is {record.phase} the agent"
        if evidence.is_owner_alive
        else f"{owner} ended while {record.phase} the agent",
        record.created_at,
    )


def _describe_stop(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.stopped is None:
        return "none", None
    reason = evidence.stopped.get("reason")
    return f"stopped by {f'a limit: {reason}' if reason else 'the user'}", agent_state.parse_row_time(evidence.stopped)


def _describe_exit(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.exit is None:
        return "none: the program has not ended, or nothing recorded its end", None
    return f"the program ended with exit code {evidence.exit.get('code')}", agent_state.parse_row_time(evidence.exit)


def _describe_status(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.hook_status is None:
        return "none: the program has not reported a state", None
    description = f"the program last reported {evidence.hook_status.get('state')}"
    reason = evidence.hook_status.get("reason")
    description += f" ({reason})" if reason else ""
    return description + (
        "" if agent_state.is_running(evidence) else ", but it is no longer running"
    ), agent_state.parse_row_time(evidence.hook_status)


def _describe_process(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    pane = evidence.pane
    if not evidence.is_tmux_running:
        return "tmux does not answer", None
    if pane is None:
        return "none: the agent has no terminal in mngr's tmux server", None
    last_output = time_format.format_timestamp(float(pane["activity"]))
    if not agent_state.is_running(evidence):
        return f"the process has ended; pane {pane['pane']} shows its last screen", last_output
    return f"process {evidence.pid} runs in pane {pane['pane']}; last output", last_output


_DESCRIBERS = {
    "record": _describe_record,
    "stop marker": _describe_stop,
    "exit record": _describe_exit,
    "status": _describe_status,
    "process": _describe_process,
}


def _suggest_next_step(ctx: Context, observed: ObservedAgent, name: str) -> str:
    """Return the next step that would change the agent's state."""
    state = observed.state
    if state.reason in ("create_interrupted", "destroy_interrupted"):
        return "clean up after the interrupted command: mngr gc"
    if state.state == "WAITING" and state.reason in _list_unanswerable_reasons(ctx, observed):
        return suggest_answer(state.reason, name)
    if state.state == "PARKED" and state.reason == "login":
        return f"log in, then send the agent a message: mngr message {name} -m TEXT"
    if isinstance(observed.record_problem, record_store.NewerRecord):
        return UPDATE_HINT
    if state.state == "UNKNOWN":
        return (
            f"see the agent's events: mngr events {name}; or move the agent to the trash: mngr destroy --force {name}"
        )
    return {
        "STARTING": f"wait until its program runs: mngr wait {name} --state RUNNING",
        "RUNNING": f"wait until it needs you or ends: mngr wait {name}; or stop it: mngr stop {name}",
        "WAITING": f"send it a message: mngr message {name} -m TEXT",
        "PARKED": f"wait until the limit ends, then send it a message: mngr message {name} -m TEXT",
        "DONE": f"run it again: mngr start {name}",
        "FAILED": f"start it again: mngr start {name}",
        "STOPPED": f"continue where it stopped: mngr start {name}",
    }[state.state]


def _list_unanswerable_reasons(ctx: Context, observed: ObservedAgent) -> tuple[str, ...]:
    """Return the reasons for waiting that a text message cannot answer."""
    kind = ctx.get_agent_kind(observed.record) if observed.record else None
    return kind.blocking_reasons if isinstance(kind, CodingAgentKind) else ()


def _format_state(state: AgentState) -> str:
    return state.state + (f" ({state.reason})" if state.reason else "")


def _compute_age(timestamp: str | None, now: float) -> float | None:
    """Return the seconds since a timestamp, or None when there is no valid timestamp."""
    try:
        return round(now - time_format.parse_timestamp(timestamp), 3) if timestamp else None
    except ValueError:
        return None


def suggest_answer(reason: str, name: str) -> str:
    """Return the next step when an agent asks a question that a text message cannot answer."""
    if reason == "permission":
        return f"answer the question: mngr message {name} --allow, or mngr message {name} --deny"
    return f"answer the question on its screen: mngr connect {name}"
