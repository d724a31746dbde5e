"""Lists all agents with their states. One program per host collects the evidence, on all hosts in parallel."""

from __future__ import annotations

import os
import time

from mngr.base import names_and_addresses, time_format
from mngr.base.errors import HostGone, HostStopped, MngrError
from mngr.base.fanout import map_parallel
from mngr.base.model import AgentRecord, AgentState, AgentView, Evidence, Struct
from mngr.base.untrusted_json import find_text, get_object, parse_json
from mngr.host import host_store, record_store, scripts, tmux_server
from mngr.kinds.protocol import ScreenKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mngr.agents.context import Context
    from mngr.host.protocol import Host

LIST_TIMEOUT = 20.0


class ObservedAgent(Struct):
    """An agent as its host showed it: the record, the evidence, and the state derived from them."""

    host: Host
    id: str
    record: AgentRecord | None  # None when mngr cannot read it
    record_problem: ValueError | None = None  # why there is no record
    evidence: Evidence
    state: AgentState


class HostView(Struct):
    """A host as `mngr list --hosts` shows it."""

    host: str
    provider: str
    state: str = "RUNNING"
    agents: int | None = None  # None when the host does not answer
    ends_at: str | None = None  # when the engine will end the host by itself
    error: str | None = None


class Listing(Struct):
    """All agents, and the hosts that did not answer."""

    agents: list[AgentView]
    errors: list[dict[str, str]] = []
    notes: list[str] = []


def list_agents(ctx: Context) -> Listing:
    """Return all agents of all hosts. A host that does not answer becomes an error row."""
    if not ctx.home.exists() and not ctx.hooks.plugins:
        return Listing(agents=[])
    host_listings = [_list_host_agents(ctx, *row) for row in observe_all_hosts(ctx)]
    agents = sorted(
        (agent for host_listing in host_listings for agent in host_listing.agents),
        key=lambda agent: (agent.created_at or "", agent.name),
    )
    ctx.hooks.notify("mngr_listed", agents=agents)
    errors = [error for host_listing in host_listings for error in host_listing.errors]
    return Listing(
        agents=agents, errors=errors, notes=[note for host_listing in host_listings for note in host_listing.notes]
    )


def _list_host_agents(ctx: Context, provider: str, host: str, answer: list[ObservedAgent] | MngrError) -> Listing:
    """Return the listing of one host from its answer or its error."""
    try:
        if isinstance(answer, HostStopped):
            return Listing(agents=[make_view(observed, "STOPPED") for observed in list_last_observed(ctx, answer)])
        if isinstance(answer, HostGone):
            host_address = f"@{host}.{provider}"
            note = f"{answer.message}; recreate it from its last backup: mngr start {host_address}; or remove it from the list: mngr destroy {host_address}"
            return Listing(
                agents=[make_view(observed, "GONE") for observed in list_last_observed(ctx, answer)], notes=[note]
            )
        if isinstance(answer, MngrError):
            agents = [make_view(observed, "UNKNOWN") for observed in _list_unknown(ctx, provider, host)]
            return Listing(agents=agents, errors=[_make_error_row(provider, host, answer)])
        notes = []
        if any(_is_watcher_missing(observed) for observed in answer):
            notes = [f"{host}: mngr is not watching the limits of its agents; start the watcher again: mngr limit NAME"]
        return Listing(agents=[make_view(observed) for observed in answer], notes=notes)
    except Exception as error:
        return Listing(agents=[], errors=[_make_error_row(provider, host, _make_bug_error(error))])


def _make_error_row(provider: str, host: str, error: MngrError) -> dict[str, str]:
    return {"provider": provider, "host": host, "error": error.message}


def _make_bug_error(error: Exception) -> MngrError:
    """Return an MngrError for an unexpected exception, so that one host's output cannot break the whole listing."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = f" ({os.path.basename(frame.tb_frame.f_code.co_filename)}:{frame.tb_lineno})" if frame else ""
    return MngrError(
        f"this is a bug in mngr: {type(error).__name__}: {error}{where}",
        "report the bug with the output of: mngr version",
    )


def observe_all_hosts(
    ctx: Context, host_keys: list[tuple[str, str]] | None = None
) -> list[tuple[str, str, list[ObservedAgent] | MngrError]]:
    """Ask the hosts in parallel and return (provider, host, observed agents or error) for each. Default: all hosts."""
    host_keys = ctx.list_host_keys() if host_keys is None else host_keys
    answers = map_parallel(lambda host_key: observe_host(ctx, ctx.get_host(*host_key)), host_keys, at_once=32)
    rows: list[tuple[str, str, list[ObservedAgent] | MngrError]] = []
    for (provider, host), answer in zip(host_keys, answers, strict=True):
        if isinstance(answer, Exception) and not isinstance(answer, MngrError):
            answer = _make_bug_error(answer)
        rows.append((provider, host, answer))
    return rows


def observe_host(ctx: Context, host: Host, ids: list[str] | None = None) -> list[ObservedAgent]:
    """Return the observed agents of a host: all, or those with the given ids."""
    agents = _observe_once(ctx, host, ids)
    lost_ids = [agent.id for agent in agents if agent.state.reason == "lost"]
    if lost_ids:  # Ask again: the pane or the exit record may have appeared between the two reads.
        second_look = {agent.id: agent for agent in _observe_once(ctx, host, lost_ids)}
        agents = [second_look.get(agent.id, agent) for agent in agents]
    return _add_screens(ctx, host, agents)


def _add_screens(ctx: Context, host: Host, agents: list[ObservedAgent]) -> list[ObservedAgent]:
    """Add the screen to the evidence where an agent's kind needs it, with one more call for all agents."""
    panes: dict[str, str] = {}
    for agent in agents:
        if agent.evidence.pane is not None and _is_screen_needed(ctx, agent):
            panes[agent.id] = str(agent.evidence.pane["pane"])
    if not panes:
        return agents
    tmux_args: list[str] = []
    for agent_id, pane in panes.items():
        tmux_args += [
            ";",
            "display-message",
            "-p",
            f"mngr-screen {agent_id}",
            ";",
            "capture-pane",
            "-p",
            "-t",
            pane,
        ]
    result = host.run(["tmux", "-u", "-S", host.tmux_socket, *tmux_args[1:]], timeout=LIST_TIMEOUT)
    screens: dict[str, list[str]] = {}
    for line in result.out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "mngr-screen" and rest in panes and rest not in screens:
            current = screens.setdefault(rest, [])
        elif screens:
            current.append(line)
    updated: list[ObservedAgent] = []
    for agent in agents:
        if agent.id in screens and agent.record is not None:
            evidence = agent.evidence.replace(screen="\n".join(screens[agent.id]))
            agent = agent.replace(
                evidence=evidence, state=ctx.get_agent_kind(agent.record).state(agent.record, evidence)
            )
        updated.append(agent)
    return updated


def _is_screen_needed(ctx: Context, agent: ObservedAgent) -> bool:
    """True when the agent's kind could refine its state with the screen."""
    if agent.record is None:
        return False
    try:
        kind = ctx.get_agent_kind(agent.record)
    except MngrError:
        return False
    return isinstance(kind, ScreenKind) and kind.is_screen_needed(agent.evidence, agent.state)


def _observe_once(ctx: Context, host: Host, ids: list[str] | None) -> list[ObservedAgent]:
    """Run list.sh on the host and return the observed agents. Save a remote host's answer about all its agents."""
    argv = [
        "sh",
        "-c",
        scripts.read_program("list.sh"),
        "list.sh",
        host.home.root,
        host.tmux_socket,
        *(ids or []),
    ]
    asked_at = time.time()
    result = host.run(argv, timeout=LIST_TIMEOUT)
    if not host.is_local and ids is None:
        host_store.save_last_listing(ctx.home, host.provider, host.name, result.out, asked_at)
    return _parse_answer(ctx, host, result.out, ids, time.time())


def list_last_observed(ctx: Context, error: HostStopped | HostGone) -> list[ObservedAgent]:
    """Return the last known agents of a stopped or gone host. Agents that had ended keep their state."""
    agents, observed_at = _load_remembered(ctx, error.provider, error.host)
    state = AgentState(
        state="FAILED", reason="host gone", source="cache", since=time_format.format_timestamp(observed_at)
    )
    if isinstance(error, HostStopped):
        reason = "host stopped" + (f": {error.why}" if error.why else "")
        state = state.replace(state="STOPPED", reason=reason)
    ended_states = ("DONE", "FAILED", "STOPPED")
    return [
        agent if agent.state.state in ended_states and agent.state.reason != "lost" else agent.replace(state=state)
        for agent in agents
    ]


def _list_unknown(ctx: Context, provider: str, name: str) -> list[ObservedAgent]:
    """Return the last known agents of a host that does not answer, with state UNKNOWN."""
    agents, observed_at = _load_remembered(ctx, provider, name)
    reason = f"its host does not answer; last seen {time_format.format_age(time.time() - observed_at)} ago"
    state = AgentState(state="UNKNOWN", reason=reason, source="cache", since=time_format.format_timestamp(observed_at))
    return [agent.replace(state=state) for agent in agents]


def _load_remembered(ctx: Context, provider: str, name: str) -> tuple[list[ObservedAgent], float]:
    """Return the agents of a host from its last answer, and the time of that answer."""
    out, observed_at = host_store.find_last_listing(ctx.home, provider, name) or (b"", 0.0)
    agents = [
        agent for agent in _parse_answer(ctx, _RememberedHost(name, provider), out, None, observed_at) if agent.record
    ]
    return [agent for agent in agents if not os.path.isdir(os.path.join(ctx.home.trash, agent.id))], observed_at


def remember_agent(ctx: Context, host: Host, record: AgentRecord) -> None:
    """Add a new agent to the saved answer of its host, in case the host stops before mngr asks it again."""
    if not host.is_local:
        row = f"dir {record.id}\n{record.id}/agent.json:".encode() + record_store.encode_record(record)
        host_store.append_last_listing(ctx.home, host.provider, host.name, row)


class _RememberedHost:
    """A host that does not answer, known only by its name and provider."""

    def __init__(self, name: str, provider: str) -> None:
        self.name = name
        self.provider = provider
        self.is_local = False


def _parse_answer(ctx: Context, host: Any, out: bytes, ids: list[str] | None, now: float) -> list[ObservedAgent]:
    """Return the observed agents from the output of list.sh."""
    agent_ids: list[str] = []
    panes: dict[str, dict[str, str]] = {}
    files: dict[str, dict[str, list[str]]] = {}
    has_watcher, is_tmux_running, host_time = False, True, None
    for line in out.decode("utf-8", "replace").split("\n"):
        word, _, rest = line.partition(" ")
        if word == "dir":
            agent_ids.append(rest)
        elif word == "clock":
            host_time = _parse_seconds(rest)
        elif line == "stranger":
            is_tmux_running = False
        elif line == "again":
            files.clear()
        elif word == "pane":
            fields = rest.split(" ", 9)
            if len(fields) != 10 or not _is_valid_pane(*fields[3:9]):
                continue
            if fields[2] == tmux_server.WATCHER_SESSION:
                has_watcher = fields[5] == "0"
            elif fields[1] == "agent" and fields[0]:
                keys = ("session", "pane", "pid", "dead", "activity", "attached", "created", "title")
                panes[fields[0]] = dict(zip(keys, fields[2:], strict=True))
        elif "/" in word:
            path, _, text = line.partition(":")
            agent_id, _, name = path.partition("/")
            files.setdefault(agent_id, {}).setdefault(name, []).append(text)
    shared_evidence = Evidence(now=now, has_watcher=has_watcher, is_tmux_running=is_tmux_running, host_time=host_time)
    return [
        _observe_from_files(ctx, host, agent_id, files.get(agent_id, {}), panes.get(agent_id), shared_evidence)
        for agent_id in agent_ids
        if names_and_addresses.is_agent_id(agent_id) and (ids is None or agent_id in files)
    ]


def _observe_from_files(
    ctx: Context,
    host: Host,
    agent_id: str,
    files: dict[str, list[str]],
    pane: dict[str, str] | None,
    shared_evidence: Evidence,
) -> ObservedAgent:
    """Return one observed agent from its files and its pane. An unreadable record becomes state UNKNOWN."""
    pid_text = files.get("proc", [""])[0].strip()
    evidence = shared_evidence.replace(
        pane=pane,
        exit=_parse_row(files.get("exit")),
        stopped=_parse_row(files.get("stopped")),
        hook_status=_parse_row(files.get("status")),
        program_status=_find_program_status(files),
        pid=int(pid_text) if names_and_addresses.is_number(pid_text) else None,
    )
    try:
        if "agent.json" not in files:
            raise ValueError("the file is missing or empty")
        record = record_store.decode_record_of(host, "\n".join(files["agent.json"]))
        if record.id != agent_id:
            raise ValueError(f"it belongs to another agent, {record.id}")
    except ValueError as error:
        is_newer = isinstance(error, record_store.NewerRecord)
        reason = str(error) if is_newer else f"damaged record: {error}"
        state = AgentState(state="UNKNOWN", reason=reason, source="record")
        return ObservedAgent(host=host, id=agent_id, record=None, record_problem=error, evidence=evidence, state=state)
    if record.phase != "ready":
        evidence = evidence.replace(
            is_owner_alive=record_store.is_owner_alive(record.owner, record.provider != "local")
        )
    try:
        state = ctx.get_agent_kind(record).state(record, evidence)
    except MngrError as error:
        state = AgentState(state="UNKNOWN", reason=error.message, source="record")
    return ObservedAgent(host=host, id=agent_id, record=record, evidence=evidence, state=state)


def _is_valid_pane(pane: str, *numbers: str) -> bool:
    """True when tmux can have printed these fields. Agents can change the tmux server, so mngr checks them."""
    return pane.startswith("%") and all(map(names_and_addresses.is_number, (pane[1:], *numbers)))


def _parse_seconds(text: str) -> float | None:
    """Return the seconds printed by `date +%s.%N`, or None. Some systems print only whole seconds."""
    whole, _, fraction_text = text.partition(".")
    fraction = fraction_text.strip("N%") or "0"
    is_valid = names_and_addresses.is_number(whole) and names_and_addresses.is_number(fraction)
    return float(f"{whole}.{fraction}") if is_valid else None


def _find_program_status(files: dict[str, list[str]]) -> dict[str, object] | None:
    """Return the newest status that the agent's program wrote to its own file, or None."""
    rows = [_parse_row(lines) for name, lines in files.items() if name.startswith("program-status/")]
    return max(filter(None, rows), key=lambda row: str(row.get("updatedAt", "")), default=None)


def make_view(observed: ObservedAgent, host_state: str = "RUNNING") -> AgentView:
    """Return the public view of an observed agent."""
    record, evidence, state = observed.record, observed.evidence, observed.state
    view = AgentView(
        id=observed.id,
        name=observed.id,
        kind="?",
        state=state.state,
        state_reason=state.reason,
        state_source=state.source,
        host=observed.host.name,  # The name in this home; other clients may use another.
        provider=observed.host.provider,
        host_state=host_state,
        project="?",
        work_dir="?",
    )
    if record is None:
        return view
    exit_code = (evidence.exit or {}).get("code") if state.state in ("DONE", "FAILED") else None
    return view.replace(
        id=record.id,
        name=record.name,
        kind=record.kind,
        # Some writers know only whole seconds, so a state could seem older than its agent.
        state_since=max(state.since, record.created_at) if state.since else None,
        parked_until=state.parked_until,
        project=record.project,
        work_dir=record.work_dir,
        branch=record.branch,
        base=record.base,
        created_at=record.created_at,
        activity_at=_compute_activity_at(record, evidence, state),
        labels=record.labels,
        pid=evidence.pid if state.state in ("STARTING", "RUNNING", "WAITING", "PARKED") else None,
        exit_code=exit_code if isinstance(exit_code, int) else None,
    )


def observe_started(host: Host, record: AgentRecord) -> ObservedAgent:
    """Return a new agent whose process is known to run, without asking the host for its state."""
    pid = int(host.read(os.path.join(host.home.agent_dir(record.id), "proc")))
    state = AgentState(state="RUNNING", source="process", since=record.created_at)
    return ObservedAgent(host=host, id=record.id, record=record, evidence=Evidence(now=0.0, pid=pid), state=state)


def list_hosts(ctx: Context) -> list[HostView]:
    """Return every host with its state, its number of agents, and its error."""
    views: list[HostView] = []
    for provider, host, answer in observe_all_hosts(ctx):
        view = HostView(host=host, provider=provider, ends_at=_find_end_time(ctx, provider, host))
        try:
            view = _add_host_state(ctx, view, answer)
        except Exception as error:
            view = view.replace(state="UNKNOWN", error=_make_bug_error(error).message)
        views.append(view)
    return views


def _add_host_state(ctx: Context, view: HostView, answer: list[ObservedAgent] | MngrError) -> HostView:
    """Return the view of a host with what follows from the host's answer or its error."""
    if isinstance(answer, HostStopped):
        return view.replace(state="STOPPED", agents=len(list_last_observed(ctx, answer)), error=answer.why)
    if isinstance(answer, HostGone):
        return view.replace(state="GONE", agents=len(list_last_observed(ctx, answer)), error=answer.message)
    if isinstance(answer, MngrError):
        return view.replace(state="UNKNOWN", error=answer.message)
    return view.replace(agents=len(answer))


def _find_end_time(ctx: Context, provider: str, host: str) -> str | None:
    """Return when the engine will end the host by itself, or None when it will not."""
    facts = host_store.find_facts(ctx.home, provider, host)
    return find_text(get_object(facts.own, "engine"), "ends_at") if facts is not None else None


def _compute_activity_at(record: AgentRecord, evidence: Evidence, state: AgentState) -> str | None:
    """Return the time of the agent's last activity."""
    if evidence.pane is not None:
        last_output = time_format.format_timestamp(float(evidence.pane["activity"]))
        return max(last_output, state.since or "", record.created_at)  # tmux knows only whole seconds.
    return state.since or record.created_at


def _is_watcher_missing(observed: ObservedAgent) -> bool:
    """True when a live agent has a limit but no watcher enforces it."""
    record = observed.record
    has_limit = record is not None and (record.idle_timeout is not None or record.lifetime is not None)
    return (
        has_limit
        and not observed.evidence.has_watcher
        and observed.state.state in ("STARTING", "RUNNING", "WAITING", "PARKED")
    )


def _parse_row(lines: list[str] | None) -> dict[str, object] | None:
    """Return the JSON object in the first line, or None."""
    if not lines:
        return None
    try:
        row = parse_json(lines[0])
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
