"""`explain`: why an agent has the state it has, witness by witness."""

from __future__ import annotations

from mngr.agents.context import Context
from mngr.agents.inspect import find
from mngr.agents.inspect.list import ObservedAgent
from mngr.base import clock
from mngr.base.errors import MngrError
from mngr.base.model import AgentRecord, AgentState, Evidence, Struct
from mngr.kinds import agent_state as witnesses
from mngr.kinds.coding_agent import CodingAgentKind
from mngr.kinds.protocol import AgentKind


class EvidenceRow(Struct):
    """What one witness said."""

    witness: str
    said: str
    at: str | None = None
    age: float | None = None  # seconds
    decided: bool = False


class Explanation(Struct):
    """A state, everything that was heard about it, and what would change it."""

    id: str
    name: str
    kind: str
    state: str
    state_reason: str | None
    state_source: str
    state_since: str | None
    age: float | None  # seconds it has lasted
    evidence: list[EvidenceRow]
    change: str


def explain(ctx: Context, name: str) -> Explanation:
    """The state of an agent and why."""
    seen = find.observe_agent(ctx, name)
    record, state = seen.record, seen.state
    called = record.name if record else seen.id
    return Explanation(
        id=seen.id,
        name=called,
        kind=record.kind if record else "?",
        state=state.state,
        state_reason=state.reason,
        state_source=state.source,
        state_since=state.since,
        age=_compute_age(state.since, seen.evidence.now),
        evidence=_list_evidence(ctx, seen),
        change=_suggest_next_step(ctx, seen, called),
    )


def _list_evidence(ctx: Context, seen: ObservedAgent) -> list[EvidenceRow]:
    """Every witness in order; the first whose word is the state decided it."""
    record, evidence = seen.record, seen.evidence
    if record is None:
        return [EvidenceRow(witness="record", said=f"damaged: {seen.damage}", decided=True)]
    try:
        kind = ctx.get_agent_kind(record)
    except MngrError as error:
        return [EvidenceRow(witness="record", said=error.message, decided=True)]
    heard: list[EvidenceRow] = []
    for witness, hear in witnesses.EVIDENCE_RULES:
        said, at = _DESCRIBERS[witness](record, evidence)
        decided = hear(record, evidence) == seen.state and not any(t.decided for t in heard)
        heard.append(
            EvidenceRow(witness=witness, said=said, at=at, age=_compute_age(at, evidence.now), decided=decided)
        )
    heard += _list_program_evidence(seen, kind)
    if not any(t.decided for t in heard):
        heard.append(
            EvidenceRow(
                witness=f"kind {record.kind}",
                said=_format_state(seen.state),
                at=seen.state.since,
                decided=True,
            )
        )
    return heard


def _list_program_evidence(seen: ObservedAgent, kind: AgentKind) -> list[EvidenceRow]:
    """What a coding agent's own file and its screen say, where they were asked."""
    evidence, source = seen.evidence, seen.state.source
    heard: list[EvidenceRow] = []
    words = kind.read_own_status(evidence) if isinstance(kind, CodingAgentKind) else None
    if words is not None:
        said, at = words
        decided = source in ("program", "transcript")
        heard.append(
            EvidenceRow(witness="program", said=said, at=at, age=_compute_age(at, evidence.now), decided=decided)
        )
    if evidence.screen is None and source == "screen":
        title = (evidence.pane or {}).get("title", "")
        heard.append(EvidenceRow(witness="title", said=f"of its terminal: {title}", decided=True))
    if evidence.screen is not None:
        lines = [line.strip() for line in evidence.screen.splitlines() if line.strip()]
        said = f"shows {seen.state.reason}" if source == "screen" else f"{len(lines)} lines, of which none tells more"
        heard.append(EvidenceRow(witness="screen", said=said, decided=source == "screen"))
    return heard


def _describe_record(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if record.phase == "ready":
        return "the agent was made and is complete", record.created_at
    owner = f"process {(record.owner or {}).get('pid')}"
    return (
        f"{record.phase}, by {owner}, which {'lives' if evidence.is_owner_alive else 'is gone'}",
        record.created_at,
    )


def _describe_stop(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.stopped is None:
        return "none", None
    reason = evidence.stopped.get("reason")
    return f"stopped by {f'a limit: {reason}' if reason else 'the user'}", witnesses.parse_row_time(evidence.stopped)


def _describe_exit(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.exit is None:
        return "none: the program has not ended, or its end was not written down", None
    return f"the program ended with exit code {evidence.exit.get('code')}", witnesses.parse_row_time(evidence.exit)


def _describe_status(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    if evidence.hook_status is None:
        return "none: the program has said nothing of its own state", None
    said = f"the program last said {evidence.hook_status.get('state')}"
    reason = evidence.hook_status.get("reason")
    said += f" ({reason})" if reason else ""
    return said + ("" if witnesses.is_running(evidence) else ", but it is gone"), witnesses.parse_row_time(
        evidence.hook_status
    )


def _describe_process(record: AgentRecord, evidence: Evidence) -> tuple[str, str | None]:
    pane = evidence.pane
    if not evidence.is_tmux_running:
        return "tmux does not answer", None
    if pane is None:
        return "none: it has no terminal in our tmux server", None
    at = clock.format_timestamp(float(pane["activity"]))
    if not witnesses.is_running(evidence):
        return f"ended, with its last screen in pane {pane['pane']}", at
    return f"process {evidence.pid} runs in pane {pane['pane']}, last output", at


_DESCRIBERS = {
    "record": _describe_record,
    "stop marker": _describe_stop,
    "exit record": _describe_exit,
    "status": _describe_status,
    "process": _describe_process,
}


def _suggest_next_step(ctx: Context, seen: ObservedAgent, name: str) -> str:
    """The next step that would give it another state."""
    state = seen.state
    if state.reason in ("create_interrupted", "destroy_interrupted"):
        return "an interrupted command left it: mngr gc cleans it up"
    if state.state == "WAITING" and state.reason in _list_unanswerable_reasons(ctx, seen):
        return suggest_answer(state.reason, name)
    if state.state == "PARKED" and state.reason == "login":
        return f"log in, then send it a message: mngr message {name} -m TEXT"
    if state.state == "UNKNOWN":
        return f"look at its files, or put it away: mngr destroy --force {name}"
    return {
        "STARTING": "its process comes up, or the command that makes it ends",
        "RUNNING": f"its program ends or says that it waits; mngr stop {name}",
        "WAITING": f"a message: mngr message {name} -m TEXT",
        "PARKED": f"the limit ends; then a message: mngr message {name} -m TEXT",
        "DONE": f"it has ended; mngr start {name} runs it again",
        "FAILED": f"it has ended; mngr start {name} brings it back",
        "STOPPED": f"mngr start {name} brings it back where it was",
    }[state.state]


def _list_unanswerable_reasons(ctx: Context, seen: ObservedAgent) -> tuple[str, ...]:
    """What it may wait for that no message answers."""
    kind = ctx.get_agent_kind(seen.record) if seen.record else None
    return kind.blocking_reasons if isinstance(kind, CodingAgentKind) else ()


def _format_state(state: AgentState) -> str:
    return state.state + (f" ({state.reason})" if state.reason else "")


def _compute_age(at: str | None, now: float) -> float | None:
    try:
        return round(now - clock.parse_timestamp(at), 3) if at else None
    except ValueError:
        return None


def suggest_answer(reason: str, name: str) -> str:
    """The next step when an agent asks something that a text would not answer."""
    if reason == "permission":
        return f"answer with mngr message {name} --allow or --deny"
    return f"answer it there: mngr connect {name}"
